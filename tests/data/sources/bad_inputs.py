"""Files with mistakes, and the check that a mistake ends in one line that names the place and the remedy."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lightning_xai.commands.execution import user_errors
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.files import Files
from lightning_xai.data.vocabulary import VocabularyEncoder

LONGEST_LINE = 300


Correct = Callable[[bytes, dict[str, Any]], tuple[bytes, dict[str, Any]]]


def unchanged(content: bytes, arguments: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    return content, arguments


class Bad(NamedTuple):
    """A file with a mistake.

    Args:
        kind: ending of the file.
        content: its content.
        place, remedy: parts of the line.
        arguments: arguments of Files.
        correct: returns the content and the arguments after the remedy was followed.
    """

    kind: str
    content: bytes
    place: str
    remedy: str
    arguments: dict[str, Any] = {}
    correct: Correct = unchanged


def lines(*rows: Any) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def row(**cells: Any) -> dict[str, Any]:
    return {"text": "a good film", "label": "pos"} | cells


def parquet(**columns: Any) -> bytes:
    stream = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue().to_pybytes()


def with_encoding(name: str):
    return lambda content, arguments: (content, arguments | {"encoding": name})


def replaced(old: bytes, new: bytes, **more: Any):
    def correct(content: bytes, arguments: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        assert old in content
        return content.replace(old, new), arguments | more

    return correct


def rewritten(content: bytes):
    return lambda _, arguments: (content, arguments)


def load(folder, bad: Bad, content: bytes, arguments: dict[str, Any]) -> None:
    """Writes the splits and reads them as a command does."""
    splits = arguments.get("data_files", ["train", "validation", "test"])
    files: dict[str, str | list[str]] = {split: str(folder / f"{split}.{bad.kind}") for split in splits}
    for split in splits:
        (folder / f"{split}.{bad.kind}").write_bytes(content)
    source = Files(files, **{name: value for name, value in arguments.items() if name != "data_files"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("datasets.config.HF_DATASETS_CACHE", folder / "cache")
        TextDataModule(source, VocabularyEncoder()).setup("fit")


def check_mistake(folder, bad: Bad, capsys) -> None:
    """Checks the line of a file with a mistake; a file that is corrected as the line says must load."""
    with pytest.raises(SystemExit) as caught, user_errors():
        load(folder, bad, bad.content, bad.arguments)
    line = str(caught.value.code).replace(f"{folder}/", "")
    assert line.startswith("error: ") and "\n" not in line and len(line) <= LONGEST_LINE
    assert bad.place in line and bad.remedy in line
    assert "Failed" not in capsys.readouterr().err
    load(folder, bad, *bad.correct(bad.content, bad.arguments))
