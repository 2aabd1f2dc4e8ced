from pathlib import Path

import pytest

import lightning_xai
from lightning_xai.functional.model_folders import resolve_model_path


@pytest.mark.parametrize("path", ["bert-base-uncased", "runs/teacher", "/absolute/folder"])
def test_folders_and_hub_ids_stay_as_they_are(path: str) -> None:
    assert resolve_model_path(path) == path


def test_a_folder_inside_a_package_is_located() -> None:
    folder = resolve_model_path("package:lightning_xai/models")
    assert Path(folder) == Path(list(lightning_xai.__path__)[0]) / "models"


def test_a_package_that_is_not_installed_is_refused_with_the_command() -> None:
    with pytest.raises(ValueError, match="'no_such_package' is not installed; run: pip install no-such-package"):
        resolve_model_path("package:no_such_package/folder")


def test_a_folder_that_the_package_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="'lightning_xai' has no folder 'nowhere'"):
        resolve_model_path("package:lightning_xai/nowhere")
