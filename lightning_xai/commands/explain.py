"""`run.py explain`: prints or writes the predicted classes and token scores of a trained network for new texts."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.outputs import refuse_inputs, refuse_private, write_output
from lightning_xai.commands.parser.choices import shortened
from lightning_xai.commands.parser.typed_command import run_command
from lightning_xai.commands.trained.explainer import Explainer
from lightning_xai.commands.trained.trained_run import (
    load_trained_run,
    method_classes,
    run_and_inputs,
    signed_arguments,
    unknown_method,
)
from lightning_xai.data.sources.files import KINDS, Files
from lightning_xai.data.sources.row_stream import read_rows
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.explanation import json_record, print_document
from lightning_xai.report.heatmap_page import html_page
from lightning_xai.runs.files.compressed_files import kind_of
from lightning_xai.runs.files.text_files import read_text

STANDARD = "-"  # standard input as `file`, standard output as `output`


def explain_command(argv: list[str]) -> None:
    """Parses the command line of `explain` and runs it. The option "--method A,B" names two methods.

    Raises:
        ValueError: there is no attribution method with a given name, or `explain` raises an error.
    """
    import_all()
    run_command(explain, with_method_lists(argv, method_classes()), name="explain", as_positional=False)


def with_method_lists(argv: list[str], known: Mapping[str, type[AttributionMethod]]) -> list[str]:
    """Returns a command line in which "--method A,B" is replaced by "--method=[A, B]", the parser's form of a list.

    A method that is given by its class name gets the arguments that make its scores signed (see `signed_arguments`).

    Args:
        argv: the command line.
        known: class name -> method class, for all methods.

    Raises:
        ValueError: there is no method with a given name.

    Example:
        >>> from lightning_xai.attributions.input_x_gradient import InputXGradient
        >>> from lightning_xai.attributions.random import Random
        >>> known = {"InputXGradient": InputXGradient, "Random": Random}
        >>> with_method_lists(["--method", "InputXGradient,Random"], known)
        ['--method=[{"class_path": "InputXGradient", "init_args": {"pooling": "sum"}}, Random]']
    """
    arguments: list[str] = []
    for argument in argv:
        if arguments and arguments[-1] == "--method":
            argument = f"{arguments.pop()}={argument}"
        if argument.startswith("--method="):
            names = [name.strip() for name in argument.removeprefix("--method=").split(",")]
            if all(name.replace(".", "_").isidentifier() for name in names):
                for name in names:
                    if "." not in name and name not in known:
                        raise ValueError(unknown_method(name, known))
                specs = ", ".join(_spec(name, known.get(name)) for name in names)
                argument = f"--method=[{specs}]" if len(names) > 1 else f"--method={specs}"
        arguments.append(argument)
    return arguments


def _spec(name: str, method: type[AttributionMethod] | None) -> str:
    """Returns a method's name or, if it needs arguments, its class_path and init_args as JSON."""
    arguments = {} if method is None else signed_arguments(method)
    return json.dumps({"class_path": name, "init_args": arguments}) if arguments else name


def explain(
    ckpt: str,
    text: str | None = None,
    file: str | None = None,
    text_file: str | None = None,
    text_pair: str | None = None,
    text_column: str = "text",
    method: AttributionMethod | list[AttributionMethod] | None = None,
    num_classes: int = 3,
    html: str | None = None,
    output: str | None = None,
    device: str = "cpu",
    trust_remote_code: bool = False,
) -> None:
    """Explains texts with a trained network.

    Args:
        ckpt: folder of a run, whose best checkpoint is used, or a checkpoint file in such a folder; a Hugging Face
            folder or hub id with a classification head; or a folder of released PLM-CA weights. Texts are encoded as
            they were in training.
        text: a text to explain. Its tokens are printed in color, and its strongest words as bars.
        file: a file with one text per line, instead of `text`; "-" reads standard input. Of a table (csv, tsv, json,
            jsonl, parquet or arrow), the texts in `text_column` are explained. The table needs no labels.
        text_file: a file that contains one text of any number of lines, instead of `text`; "-" reads standard input.
        text_pair: second text, for a network that was trained on pairs. With `file`, all lines have this second text.
            The tokens of the second text are not shown.
        text_column: the column of a table in `file` that holds the texts.
        method: one attribution method, as a class name (AttInGrad) or a class_path, or several class names separated by
            commas (AttInGrad,DecompXReverse). The default is IntegratedGradients with signed scores, which sum to the
            logit for the text minus the logit for the baseline. A method that is given by its name alone gets signed
            scores if its argument `pooling` allows them; `--method.pooling l2` gives magnitudes instead. Gradient keeps
            its magnitudes, because the sum over the elements of a token's gradient has no meaning.
        num_classes: on multi-label data, at least this many of the most probable classes are explained, even if the
            network does not predict them. All predicted classes are always explained.
        html: HTML page to write for `text` or `text_file`; by default explain.html in the run's folder, or in the
            working directory if `ckpt` is not a run.
        output: JSON Lines file to write for `file`, with one record for each line, even an empty one, or for each row
            of a table; "-" writes to standard output. The default is <file>.jsonl, for a table <file>.explained.jsonl,
            and standard output if `file` is "-".
        device: device that runs the network, such as cpu or cuda.
        trust_remote_code: whether Python code in the model's folder may run. If the network was trained with such code,
            this must be true.

    Raises:
        ValueError: not exactly one of `text`, `text_file` and `file` is given, a file or run is missing, the network
            needs a second text, an output would overwrite an input, or an option would have no effect.
    """
    if sum(given is not None for given in (text, file, text_file)) != 1:
        raise ValueError("give exactly one of --text, --text_file and --file")
    given = next(name for name, v in (("text_file", text_file), ("text", text), ("file", file)) if v is not None)
    if text_file is not None:
        text = whole_text(text_file)
    elif text is not None and not text.strip():
        raise ValueError("--text is empty: give a text with at least one word")
    for option, value, goes_with in (("html", html, text), ("output", output, file)):
        if value is not None and goes_with is None:
            other = "output" if option == "html" else "html"
            raise ValueError(f"--{option} {value} has no effect with --{given}: leave it out, or use --{other}")
    if output is not None and Path(output).suffix in (".csv", ".tsv", ".parquet", ".html"):
        raise ValueError(f"--output writes JSON Lines, not {output}: give a name that ends in .jsonl")
    if html is not None and Path(html).suffix not in (".html", ".htm"):
        raise ValueError(f"--html writes a page, not {html}: give a name that ends in .html")
    if file not in (None, STANDARD) and not Path(str(file)).is_file():
        raise ValueError(f"there is no file {file}: give a file with one text per line, or - for standard input")
    run, inputs = run_and_inputs(ckpt)
    page = Path(html) if html else (run.explain_page if run else Path("explain.html"))
    is_table = file is not None and kind_of(file) in KINDS
    if text_column != "text" and not is_table:
        raise ValueError(f"--text_column {text_column} has no effect: --file gives no table; leave it out")
    lines = output or (STANDARD if file == STANDARD else f"{file}.explained.jsonl" if is_table else f"{file}.jsonl")
    model = run.path if run else Path(ckpt)
    if file is None:
        read = {} if text_file in (None, STANDARD) else {"text_file": Path(str(text_file))}
        refuse_inputs("html", page, read | inputs, model)
    elif lines != STANDARD:
        refuse_inputs("output", Path(lines), {"file": Path(file)} | inputs, model)
    if run is not None:
        refuse_private(*(("html", page) if file is None else ("output", Path(lines))), run)
    loaded = load_trained_run(ckpt, device=device, trust_remote_code=trust_remote_code)
    explainer = loaded.explainer(method, num_classes=num_classes, text_pair=text_pair)
    if text is not None:
        _explain_text(explainer, text, page, title=f"{', '.join(explainer.methods)} on {run.path if run else ckpt}")
    elif file is not None:
        texts = texts_in_table(file, text_column) if is_table else file_lines(file)
        _explain_texts(explainer, texts, lines, unit="row" if is_table else "line")


def _explain_text(explainer: Explainer, text: str, page: Path, *, title: str) -> None:
    (document,) = explainer.documents([text])
    print_document(document)
    write_output(page, lambda stream: stream.write(html_page(title, [document])))
    print(f"\nwritten: {page}")


def _explain_texts(explainer: Explainer, texts: list[str], output: str, *, unit: str) -> None:
    def write(lines: TextIO) -> None:
        for number, document in enumerate(explainer.documents(texts), start=1):
            lines.write(json.dumps({unit: number, **json_record(document)}, ensure_ascii=False) + "\n")
            if sys.stderr.isatty():
                print(f"\r{number}/{quantity(len(texts), 'text')}", end="", file=sys.stderr)
        if sys.stderr.isatty():
            print(file=sys.stderr)

    if output == STANDARD:
        write(sys.stdout)
    else:
        write_output(Path(output), write)
        print(f"written: {output}")


def whole_text(file: str) -> str:
    """Returns the whole content of a file, or of standard input for "-", as one text.

    Raises:
        ValueError: the file is missing, empty or not UTF-8.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as stream:
        ...     _ = Path(stream.name).write_text("Admission: fever\\nDischarge: home\\n", encoding="utf-8")
        ...     whole_text(stream.name)
        'Admission: fever\\nDischarge: home\\n'
    """
    if file != STANDARD and not Path(file).is_file():
        raise ValueError(f"there is no file {file}: give a file that contains one text, or - for standard input")
    text = sys.stdin.read() if file == STANDARD else read_text(Path(file), has_option=False)
    if not text.strip():
        raise ValueError(f"{'standard input' if file == STANDARD else file} has no text: write one text into it")
    return text


def file_lines(file: str) -> list[str]:
    """Returns the lines of a file, or of standard input for "-". Only line feeds end a line.

    Raises:
        ValueError: the file is not UTF-8.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as stream:
        ...     _ = Path(stream.name).write_text("a\\u2028b\\n\\nc\\n", encoding="utf-8")
        ...     file_lines(stream.name)  # str.splitlines would also split at U+2028
        ['a\\u2028b', '', 'c']
    """
    text = sys.stdin.read() if file == STANDARD else read_text(Path(file), has_option=False)
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def texts_in_table(file: str, column: str = "text") -> list[str]:
    """Returns the texts in a column of a table: a csv, tsv, json, jsonl, parquet or arrow file.

    Raises:
        ValueError: the table lacks the column, or a cell holds something other than text.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile(suffix=".csv") as stream:
        ...     _ = Path(stream.name).write_text("id,review\\n1,fine\\n")
        ...     texts_in_table(stream.name, "review")
        ['fine']
    """
    if Path(file).suffix in (".csv", ".tsv", ".json", ".jsonl"):
        read_text(Path(file), has_option=False)  # if the file is not UTF-8, Files would name an option of the data
    rows = Files({"texts": file}).load_table()["texts"]
    if column not in rows.column_names:
        names = shortened(", ".join(rows.column_names), 100)
        remedy = "name the column by --text_column"
        if kind_of(file) in (".csv", ".tsv"):
            remedy += ", or write the names of the columns into line 1"
        raise ValueError(f"{file} has no column {column!r}, only {names}: {remedy}")
    cells = [row.get(column) for row in read_rows(rows)]
    texts = ["" if cell is None else cell for cell in cells]
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise ValueError(f"{file}, row {number}: {column} is {shortened(repr(text))}, not a text: correct it")
    return texts
