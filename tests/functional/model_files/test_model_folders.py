from pathlib import Path

import pytest

import lightning_xai
from lightning_xai.functional.model_files.model_folders import resolve_model_path


@pytest.mark.parametrize("path", ["bert-base-uncased", "google-bert/bert-base-uncased", "runs/teacher", "."])
def test_folders_and_hub_ids_stay_as_they_are(path: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_model_path(path) == path
    assert resolve_model_path(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("path", ["runs/typo", "runs/typo/seed0", "./typo", "/absolute/typo", "a b", "runs/typo/"])
def test_path_that_is_neither_there_nor_a_hub_id_is_refused_without_asking_the_hub(path, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match=f"^there is no {path}.*: give a model folder or a hub id"):
        resolve_model_path(path)


def test_a_folder_inside_a_package_is_located() -> None:
    folder = resolve_model_path("package:lightning_xai/models")
    assert Path(folder) == Path(list(lightning_xai.__path__)[0]) / "models"


def test_a_package_that_is_not_installed_is_refused_with_the_command() -> None:
    with pytest.raises(ValueError, match="'no_such_package' is not installed; run: pip install no-such-package"):
        resolve_model_path("package:no_such_package/folder")


def test_a_folder_that_the_package_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="'lightning_xai' has no folder 'nowhere'"):
        resolve_model_path("package:lightning_xai/nowhere")
