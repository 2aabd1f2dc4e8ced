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


@pytest.mark.parametrize("name", ["roberta-base-pm-m3-voc-hf", "RoBERTa-base-PM-M3-Voc-hf"])
@pytest.mark.parametrize("folder", ["models", "./models", "/weights"])
def test_missing_roberta_pm_is_refused_with_its_address_without_asking_the_hub(name, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"there is no .*: unpack https://dl.fb.*/RoBERTa-base-PM-M3-Voc-hf.tar.gz"):
        resolve_model_path(f"{folder}/{name}")


def test_missing_folder_of_the_archive_of_edin_et_al_is_refused_with_its_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="there is no models/tm/3hvfq75j: unpack https://drive.google.com/"):
        resolve_model_path("models/tm/3hvfq75j")


def test_a_folder_inside_a_package_is_located() -> None:
    folder = resolve_model_path("package:lightning_xai/models")
    assert Path(folder) == Path(list(lightning_xai.__path__)[0]) / "models"


def test_a_package_that_is_not_installed_is_refused_with_the_command() -> None:
    with pytest.raises(ValueError, match="'no_such_package' is not installed; run: pip install no-such-package"):
        resolve_model_path("package:no_such_package/folder")


def test_a_folder_that_the_package_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="'lightning_xai' has no folder 'nowhere'"):
        resolve_model_path("package:lightning_xai/nowhere")
