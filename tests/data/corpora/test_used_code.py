"""The code that decides how rows are encoded: all that a source and an encoder use, and nothing else."""

import inspect
from pathlib import Path

import pytest

from lightning_xai.data.corpora import used_code
from lightning_xai.data.corpora.used_code import hash_with_imports, used_files
from lightning_xai.data.encoding import TokenizerEncoder
from lightning_xai.data.sources.files import Files


def names(cls) -> set[str]:
    files = used_files(Path(inspect.getfile(cls)).read_text())
    return {path.relative_to(used_code.PACKAGE).as_posix() for path in files}


def test_a_source_and_an_encoder_use_their_readers_and_not_the_batches():
    assert {"data/tables/csv_and_json.py", "data/sources/base.py", "runs/files/text_files.py"} <= names(Files)
    assert {"data/corpora/token_columns.py", "functional/text/spans.py", "data/corpora/token_table.py"} <= names(
        TokenizerEncoder
    )
    others = {"data/batches/collate.py", "data/batches/sampler.py", "data/module.py", "data/prompt.py"}
    others |= {"functional/erasure/perturbation.py"}
    assert not others & (names(Files) | names(TokenizerEncoder))


@pytest.fixture
def package(tmp_path, monkeypatch):
    for name, code in {
        "data/near.py": "def f():\n    from lightning_xai.runs import far\n",
        "runs/far.py": "import os\nfrom lightning_xai.data.near import f\n",  # a circle
        "runs/other.py": "",
    }.items():
        file = tmp_path / "lightning_xai" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    monkeypatch.setattr(used_code, "PACKAGE", tmp_path / "lightning_xai")
    forget()
    yield tmp_path / "lightning_xai"
    forget()


def forget() -> None:
    hash_with_imports.cache_clear()
    used_code._imported_by.cache_clear()


def test_only_a_change_of_used_code_changes_the_hash(package):
    code = "import lightning_xai.data.near\n"
    before = hash_with_imports(code)
    for name, is_used in (("runs/other.py", False), ("data/near.py", True), ("runs/far.py", True)):
        with (package / name).open("a") as file:
            file.write("# changed\n")
        forget()
        after = hash_with_imports(code)
        assert (after != before) == is_used
        before = after


def test_a_module_that_is_imported_by_its_package_counts(package):
    assert {path.name for path in used_files("from lightning_xai.runs import far, missing")} == {"far.py", "near.py"}
