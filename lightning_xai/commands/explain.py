"""`run.py explain`: predicted classes and token scores of a text, or of a file of texts, from a trained run."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jsonargparse import ArgumentParser, auto_cli
from omegaconf import OmegaConf

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.commands.discovery import import_all
from lightning_xai.data.collate import Item, collate
from lightning_xai.data.encoding import Encoded, Encoder
from lightning_xai.functional.targets import predicted_classes
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoint import TrainedNetwork, load_trained
from lightning_xai.report.heatmap import ExplainedClass, ExplainedDocument, ansi
from lightning_xai.report.heatmap_page import html_page
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.moved import current_spec
from lightning_xai.types import TextInputs

BATCH_SIZE = 16


def explain_command(argv: list[str]) -> None:
    """Parses the command line of `explain` and runs it.

    Raises:
        ValueError: there is no attribution method of the given name.
    """
    import_all()
    known = method_names()
    for option, value in zip(argv, argv[1:], strict=False):
        if option == "--method" and value.isidentifier() and value not in known:
            raise ValueError(f"there is no attribution method {value!r}: choose one of {', '.join(known)}")
    auto_cli(explain, args=argv, prog="run.py explain", as_positional=False, exit_on_error=False)


def method_names() -> list[str]:
    """Returns the names of the attribution methods imported so far that can be built."""
    found, queue = set(), [AttributionMethod]
    while queue:
        kind = queue.pop()
        queue += kind.__subclasses__()
        if not inspect.isabstract(kind):
            found.add(kind.__name__)
    return sorted(found)


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
) -> None:
    """Explains texts with the network of a run.

    Args:
        ckpt: folder of a run, of which the best checkpoint is used, or another checkpoint in such a folder; the run
            also tells how texts are encoded.
        text: a text to explain; its tokens are printed in color.
        file: a file with one text a line, instead of `text`.
        text_pair: for a network that was trained on pairs: the second text, the same one for every line of `file`. Its
            tokens are scored, but not shown.
        method: attribution method, by its class name (AttInGrad) or class_path; InputXGradient by default.
        num_classes: classes explained where none or several are predicted: the most probable ones.
        html: page to write; explain.html in the run's folder by default.
        output: JSON lines to write for `file`, one for each of its lines, empty ones included, with character offsets;
            <file>.jsonl by default.
        device: where to run.

    Raises:
        ValueError: not exactly one of `text` and `file` is given, a file or run is missing, or the network needs a
            second text.
    """
    if (text is None) == (file is None):
        raise ValueError("give either --text or --file")
    if file is not None and not Path(file).is_file():
        raise ValueError(f"there is no file {file}: give one with a text a line")
    given = Path(ckpt)
    run = RunFolder(given.parents[1] if given.is_file() else given)
    best = given if given.is_file() else run.checkpoint("best") or run.checkpoint("last")
    config_file = run.path / "config.yaml"
    if best is None or not config_file.is_file():
        raise ValueError(f"{ckpt} lacks a checkpoint or a config.yaml: give the folder of a fitted run")
    trained = load_trained(str(best))
    network = trained.network.to(device)
    if text_pair is None and getattr(network, "paired", False):
        raise ValueError(f"the network of {ckpt} reads pairs of texts: give the second one by --text_pair")
    explainer = Explainer(
        network,
        trained_encoder(config_file, trained),
        method or InputXGradient(),
        class_names=trained.class_names,
        threshold=trained.decision_threshold,
        num_classes=num_classes,
        text_pair=text_pair,
    )
    texts = [text] if text is not None else file_lines(Path(file))
    page = Path(html) if html else run.path / "explain.html"
    if text is not None:
        document = next(explainer.documents(texts))
        print_document(document)
        page.write_text(html_page(f"{explainer.method_name} on {run.path}", [document]), encoding="utf-8")
        print(f"written: {page}")
        return
    target = Path(output) if output else Path(f"{file}.jsonl")
    with target.open("w", encoding="utf-8") as lines:
        for done, document in enumerate(explainer.documents(texts), start=1):
            lines.write(json.dumps({"line": done, **json_record(document)}, ensure_ascii=False) + "\n")
            print(f"\r{done}/{len(texts)} texts", end="", file=sys.stderr)
    print(f"\nwritten: {target}")


def file_lines(file: Path) -> list[str]:
    """Returns the lines of a file as editors count them: unlike str.splitlines, only line feeds end one."""
    lines = file.read_text(encoding="utf-8").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


class Explainer:
    """Predicts and explains texts in batches."""

    def __init__(
        self, network: Classifier, encoder: Encoder, method: AttributionMethod, *, class_names: list[str],
        threshold: float, num_classes: int, text_pair: str | None,
    ) -> None:  # fmt: skip
        self.network, self.encoder, self.method = network, encoder, method
        self.class_names, self.threshold, self.num_classes = class_names, threshold, num_classes
        self.text_pair = text_pair
        self.method_name = type(method).__name__
        if method.needs_attentions:
            network.set_attention("eager")

    def documents(self, texts: list[str]) -> Iterator[ExplainedDocument]:
        """Yields the explained documents in the order of `texts`."""
        for start in range(0, len(texts), BATCH_SIZE):
            part = texts[start : start + BATCH_SIZE]
            encoded = self.encoder.encode_batch([{"text": text, "text_pair": self.text_pair} for text in part])
            inputs = self._inputs(encoded, start)
            probs = self.network.predict(inputs)
            targets, target_mask = self._targets(probs)
            attribution = self.method.attribute(self.network, inputs, targets, target_mask)
            for row, text in enumerate(part):
                offsets = encoded[row].text_offsets
                classes = [
                    ExplainedClass(
                        name=self.class_names[target],
                        probability=float(probs[row, target]),
                        gold=None,
                        predicted=bool(self._predicted(probs)[row, target]),
                        scores={self.method_name: attribution.scores[row, k, : len(offsets)].cpu().numpy()},
                    )
                    for k, target in enumerate(attribution.targets[row].tolist())
                    if attribution.target_mask[row, k]
                ]
                yield ExplainedDocument(name=f"text {start + row}", text=text, offsets=offsets, classes=classes)

    def _inputs(self, encoded: list[Encoded], start: int) -> TextInputs:
        items = [Item(start + row, tokens, 0) for row, tokens in enumerate(encoded)]
        batch = collate(
            items, pad_token_id=self.encoder.pad_token_id, num_classes=1, multilabel=False, has_rationales=False
        )
        return batch.inputs.to(next(self.network.parameters()).device)

    def _predicted(self, probs: torch.Tensor) -> torch.Tensor:
        return predicted_classes(probs, multilabel=self.network.multilabel, decision_threshold=self.threshold)

    def _targets(self, probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the most probable classes: all predicted ones, and at least `num_classes` if multi-label."""
        predicted = self._predicted(probs)
        least = min(self.num_classes, probs.shape[1]) if self.network.multilabel else 1
        width = max(int(predicted.sum(dim=1).max()), least)
        targets = probs.argsort(dim=1, descending=True)[:, :width]
        place = torch.arange(width, device=probs.device)
        return targets, place < predicted.sum(dim=1, keepdim=True).clamp(min=least)


def encoder_of(config_file: Path) -> Encoder:
    """Returns the encoder that a run's configuration names."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(Encoder, "encoder")
    spec = OmegaConf.to_container(OmegaConf.load(config_file).data.init_args.encoder, resolve=True)
    return parser.instantiate_classes(parser.parse_object({"encoder": current_spec(spec)})).encoder


def trained_encoder(config_file: Path, trained: TrainedNetwork) -> Encoder:
    """Returns a run's encoder with what it learned from the training rows, which the checkpoint holds."""
    encoder = encoder_of(config_file)
    if trained.data_state:
        encoder.load_state_dict(trained.data_state["encoder"])
    return encoder


def print_document(document: ExplainedDocument) -> None:
    """Prints every explained class with its probability, the colored text and the highest tokens in words."""
    for explained in document.classes:
        mark = "predicted" if explained.predicted else "not predicted"
        for method, scores in explained.scores.items():
            print(f"\n{explained.name}  p = {explained.probability:.3f}  ({mark}), {method}")
            print(ansi(document, explained, method) if sys.stdout.isatty() else document.text)
            order = np.abs(scores).argsort()[::-1]
            top = [i for i in order if document.offsets[i][1] > document.offsets[i][0]][:5]
            words = [f"{document.text[slice(*document.offsets[i])]!r} {scores[i]:+.3g}" for i in top]
            print("highest: " + ", ".join(words))


def json_record(document: ExplainedDocument) -> dict:
    """Returns one JSON line: the text, token offsets [T, 2] in characters, and scores [T] by class and method."""
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
