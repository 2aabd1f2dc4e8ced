"""Writes the output files of commands atomically, and refuses outputs that would overwrite an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import yaml

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.tables import terminal_width
from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.files.whole_files import remove_partial_files, write_whole
from lightning_xai.runs.folder import RunFolder

EXPLANATIONS = (".html", ".jsonl")  # in a model's folder, only files with these suffixes may be overwritten


def refuse_inputs(option: str, output: Path, inputs: Mapping[str, Path], model: Path | None = None) -> None:
    """Raises ValueError if an output would overwrite an input of the command or a file of the model, or is a folder.

    An input is recognized even if the output is another path to the same file, such as a link.

    Args:
        option: the option that sets `output`, for messages.
        output: the output file.
        inputs: description of an input -> its file.
        model: folder of the explained model, where only earlier explanations may be overwritten.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        ...     refuse_inputs("output", Path(file.name), {"file": Path(file.name)})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: output ... is also an input (file): give another name for the output
    """
    if output.is_dir():
        raise ValueError(f"{option} {output} is a folder: give the path of a file")
    for name, path in inputs.items():
        if output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"{option} {output} is also an input ({name}): give another name for the output")
    is_model = model is not None and model.is_dir() and output.resolve().is_relative_to(model.resolve())
    if is_model and output.exists() and output.suffix not in EXPLANATIONS:
        raise ValueError(f"{option} {output} is a file of the model in {model}: give another name for the output")


def refuse_private(option: str, output: Path, run: RunFolder) -> None:
    """Raises ValueError if the data of a run are private, and an output with texts is inside the folder of all runs.

    Data are private if their source has `allow_text: false`.

    Args:
        option: the option that sets `output`, for messages.
        output: the output file.
        run: the run whose network explains the texts.

    Example:
        >>> import tempfile
        >>> run = RunFolder.of(tempfile.mkdtemp(), "mdace", 0)
        >>> run.path.mkdir(parents=True)
        >>> _ = run.config_file.write_text("data: {init_args: {source: {init_args: {allow_text: false}}}}")
        >>> refuse_private("html", run.explain_page, run)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: html .../explain.html would contain texts, but the run's data are private: set --html to a file ...
    """
    inside = output.resolve().is_relative_to(run.experiment_dir.parent.resolve())
    if inside and _forbids_text(yaml.safe_load(run.config_file.read_text(encoding="utf-8"))):
        raise ValueError(
            f"{option} {output} would contain texts, but the run's data are private: set --{option} to a file outside "
            "of the folder of all runs, or train with `allow_text: true` in the source"
        )


def _forbids_text(settings: Any) -> bool:
    if isinstance(settings, dict):
        return settings.get("allow_text") is False or any(map(_forbids_text, settings.values()))
    return isinstance(settings, list) and any(map(_forbids_text, settings))


def write_output(file: Path, write: Callable[[TextIO], object]) -> None:
    """Writes a text file in UTF-8 atomically. Pipes and devices (/dev/stdout) are written directly.

    Args:
        file: the file. If it is a symbolic link, the file to which it points is written.
        write: function that writes the text to a stream.

    Raises:
        ValueError: the disk is full or read-only.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "scores.jsonl")
        >>> write_output(file, lambda stream: stream.write("{}"))
        >>> file.read_text()
        '{}'
    """

    def write_text(place: Path) -> None:
        with writing(file), place.open("w", encoding="utf-8") as stream:
            write(stream)

    if file.exists() and not file.is_file():
        write_text(file)
    else:
        place = file.resolve()
        remove_partial_files(place.parent, place.name, owned=False)  # left by a killed command on this machine
        write_whole(place, write_text)


def written_lines(file: Path | None, pages: Sequence[Path]) -> list[str]:
    """Returns the lines that name the files of an evaluation: the table or predictions, and the pages with heatmaps.

    Args:
        file: the table or the predictions; None if the command writes neither. It is named only if it exists.
        pages: the pages that the command has written, all in one folder.

    Example:
        >>> written_lines(Path("no/such/results.csv"), [])
        []
    """
    lines = [f"written: {file}"] if file is not None and file.exists() else []
    return [*lines, pages_line(pages, terminal_width())] if pages else lines


def pages_line(pages: Sequence[Path], width: int) -> str:
    """Returns a line that names the written pages of one folder, or only their number if the line would be too long.

    Args:
        pages: the pages; at least one.
        width: number of characters in a line.

    Example:
        >>> pages = [Path("runs/tm/seed0/heatmaps", name) for name in ("test.html", "nyt.html")]
        >>> pages_line(pages[:1], 80)
        'written: runs/tm/seed0/heatmaps/test.html'
        >>> pages_line(pages, 80)
        'written: runs/tm/seed0/heatmaps: test.html, nyt.html'
        >>> pages_line(pages, 40)
        'written: runs/tm/seed0/heatmaps (2 pages)'
    """
    if len(pages) == 1:
        return f"written: {pages[0]}"
    line = f"written: {pages[0].parent}: {', '.join(page.name for page in pages)}"
    return line if len(line) <= width else f"written: {pages[0].parent} ({quantity(len(pages), 'page')})"
