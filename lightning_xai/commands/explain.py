"""`run.py explain`: prints or writes the classes and token scores that a run's network gives to new texts."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.explainer import Explainer, trained_encoder
from lightning_xai.commands.outputs import refuse_inputs, write_output
from lightning_xai.commands.typed_command import run_command
from lightning_xai.models.checkpoint import checkpoint_path, load_trained
from lightning_xai.report.heatmap import ExplainedDocument, ansi
from lightning_xai.report.heatmap_page import html_page
from lightning_xai.runs.folder import RunFolder


def explain_command(argv: list[str]) -> None:
    """Parses the command line of `explain` and runs it.

    Raises:
        ValueError: there is no attribution method of the given name.
    """
    import_all()
    known = method_names()
    named = [value for option, value in zip(argv, argv[1:], strict=False) if option == "--method"]
    named += [argument.removeprefix("--method=") for argument in argv if argument.startswith("--method=")]
    for name in named:
        if name.isidentifier() and name not in known:
            raise ValueError(f"there is no attribution method {name!r}: choose one of {', '.join(known)}")
    run_command(explain, argv, name="explain", as_positional=False)


def method_names() -> list[str]:
    """Returns the class names of all attribution methods imported so far, without abstract classes.

    Example:
        >>> "InputXGradient" in method_names(), "AttributionMethod" in method_names()
        (True, False)
    """
    names, queue = set(), [AttributionMethod]
    while queue:
        method_class = queue.pop()
        queue += method_class.__subclasses__()
        if not inspect.isabstract(method_class):
            names.add(method_class.__name__)
    return sorted(names)


def explain(
    ckpt: str,
    text: str | None = None,
    file: str | None = None,
    text_pair: str | None = None,
    method: AttributionMethod | None = None,
    num_classes: int = 3,
    html: str | None = None,
    output: str | None = None,
    device: str = "cpu",
    trust_remote_code: bool = False,
) -> None:
    """Explains texts with the network of a run.

    Args:
        ckpt: folder of a run, whose best checkpoint is used, or a checkpoint file in such a folder. Texts are encoded
            as in that run.
        text: a text to explain; its tokens are printed in color.
        file: a file with one text per line, instead of `text`.
        text_pair: second text, for a network that was trained on pairs. With `file`, every line gets this second text.
            The tokens of the second text are not shown.
        method: attribution method, by its class name (AttInGrad) or class_path; InputXGradient by default.
        num_classes: on multi-label data, the number of most probable classes that are explained even if they are not
            predicted. All predicted classes are always explained.
        html: HTML page to write for `text`; explain.html in the run's folder by default.
        output: JSON Lines file to write for `file`, with one record per line of `file`, also for empty lines;
            <file>.jsonl by default.
        device: device that runs the network, such as cpu or cuda.
        trust_remote_code: whether Python code of a model's folder may run, for a network that was trained with it.

    Raises:
        ValueError: both or neither of `text` and `file` are given, a file or run is missing, the network needs a
            second text, or an output is one of the inputs.
    """
    if (text is None) == (file is None):
        raise ValueError("give either --text or --file")
    if file is not None and not Path(file).is_file():
        raise ValueError(f"there is no file {file}: give a file with one text per line")
    run, checkpoint = _run_and_checkpoint(ckpt)
    page, lines = Path(html) if html else run.explain_page, Path(output or f"{file}.jsonl")
    inputs = {"ckpt": checkpoint, "configuration": run.config_file}
    if file is None:
        refuse_inputs("html", page, inputs)
    else:
        refuse_inputs("output", lines, {"file": Path(file)} | inputs)
    trained = load_trained(str(checkpoint), trust_remote_code=trust_remote_code)
    if text_pair is None and getattr(trained.network, "paired", False):
        raise ValueError(f"the network of {ckpt} reads pairs of texts: give the second one by --text_pair")
    trained.network.to(device)
    encoder = trained_encoder(trained.encoder, str(checkpoint), run.config_file, trust_remote_code=trust_remote_code)
    explainer = Explainer(trained, encoder, method or InputXGradient(), num_classes=num_classes, text_pair=text_pair)
    if text is not None:
        _explain_text(explainer, text, page, title=f"{explainer.method_name} on {run.path}")
    elif file is not None:
        _explain_file(explainer, Path(file), lines)


def _run_and_checkpoint(ckpt: str) -> tuple[RunFolder, Path]:
    path = Path(ckpt)
    run = RunFolder.of_checkpoint(path) if path.is_file() else RunFolder(path)
    checkpoint = checkpoint_path(ckpt)
    if checkpoint is None or not run.config_file.is_file():
        raise ValueError(f"{ckpt} lacks a checkpoint or a config.yaml: give the folder of a fitted run")
    return run, checkpoint


def _explain_text(explainer: Explainer, text: str, page: Path, *, title: str) -> None:
    (document,) = explainer.documents([text])
    print_document(document)
    write_output(page, lambda stream: stream.write(html_page(title, [document])))
    print(f"written: {page}")


def _explain_file(explainer: Explainer, file: Path, output: Path) -> None:
    texts = file_lines(file)

    def write(lines: TextIO) -> None:
        for number, document in enumerate(explainer.documents(texts), start=1):
            lines.write(json.dumps({"line": number, **json_record(document)}, ensure_ascii=False) + "\n")
            print(f"\r{number}/{len(texts)} texts", end="", file=sys.stderr)

    write_output(output, write)
    print(f"\nwritten: {output}")


def file_lines(file: Path) -> list[str]:
    """Returns the lines of a file. Only line feeds end a line, whereas str.splitlines also splits at other characters.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = Path(file.name).write_text("a\\u2028b\\n\\nc\\n", encoding="utf-8")
        ...     file_lines(Path(file.name))
        ['a\\u2028b', '', 'c']
    """
    lines = file.read_text(encoding="utf-8").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def print_document(document: ExplainedDocument) -> None:
    """Prints each explained class with its probability, the text, and the five tokens of largest absolute score.

    On a terminal the text is colored.

    Example:
        >>> from lightning_xai.report.heatmap import ExplainedClass
        >>> good = ExplainedClass("good", 0.75, gold=None, predicted=True, scores={"ig": np.array([2.0, -1.0])})
        >>> print_document(ExplainedDocument("text 0", "fine plot", np.array([[0, 4], [5, 9]]), [good]))
        <BLANKLINE>
        good  p = 0.750  (predicted), ig
        fine plot
        highest: 'fine' +2, 'plot' -1
    """
    for explained in document.classes:
        status = "predicted" if explained.predicted else "not predicted"
        for method, scores in explained.scores.items():
            print(f"\n{explained.name}  p = {explained.probability:.3f}  ({status}), {method}")
            print(ansi(document, explained, method) if sys.stdout.isatty() else document.text)
            order = np.abs(scores).argsort()[::-1]
            highest = [i for i in order if document.offsets[i][1] > document.offsets[i][0]][:5]
            words = [f"{document.text[slice(*document.offsets[i])]!r} {scores[i]:+.3g}" for i in highest]
            print("highest: " + ", ".join(words))


def json_record(document: ExplainedDocument) -> dict[str, Any]:
    """Returns one JSON line: the text, token offsets [T, 2] in characters, and scores [T] by class and method.

    Example:
        >>> from lightning_xai.report.heatmap import ExplainedClass
        >>> good = ExplainedClass("good", 0.75, gold=None, predicted=True, scores={"ig": np.array([2.0, -1.0])})
        >>> record = json_record(ExplainedDocument("text 0", "fine plot", np.array([[0, 4], [5, 9]]), [good]))
        >>> record["classes"]
        [{'name': 'good', 'probability': 0.75, 'predicted': True, 'scores': {'ig': [2.0, -1.0]}}]
    """
    return {
        "text": document.text,
        "offsets": document.offsets.tolist(),
        "classes": [
            {
                "name": explained.name,
                "probability": explained.probability,
                "predicted": explained.predicted,
                "scores": {name: [float(f"{s:.6g}") for s in scores] for name, scores in explained.scores.items()},
            }
            for explained in document.classes
        ],
    }
