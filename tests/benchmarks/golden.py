"""Prints a table of the differences between float64 attributions and the golden numbers of the authors' code.

    python -m tests.benchmarks.golden FOLDER        # the folder with decompx.json, alti.json, ..., and models/

The table has, for every file and network, the largest absolute difference over all texts and classes, and the same
relative to the largest magnitude of the authors' numbers. All texts of a network are in one padded batch.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.decompx import DecompX
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.attributions.glob_enc import GlobEnc
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.attributions.sequential_integrated_gradients import SequentialIntegratedGradients
from lightning_xai.attributions.solvex import Objective, Solvex
from lightning_xai.functional.erasure.erase import Erasure
from tests.attributions.conftest import GOLDEN_MODELS, Golden, load_golden
from tests.attributions.test_decompx import SETTINGS

ReadExpected = Callable[[dict], Tensor]  # from the outputs of a golden record to scores [T] or [C, T]


def row_of(name: str) -> ReadExpected:
    return lambda outputs: torch.tensor(outputs[name], dtype=torch.float64)


def decompx(setting: str, name: str) -> ReadExpected:
    return lambda outputs: torch.tensor(outputs[setting][name], dtype=torch.float64).movedim(0, -1)


def comparisons() -> Iterator[tuple[str, str, AttributionMethod, ReadExpected]]:
    """Yields the names of a file and of numbers in it, the method to compare, and a function that reads the numbers."""
    yield "last_layer_attention", "cls_row", Attention(), row_of("cls_row")
    yield "attention_rollout", "cls_row", AttentionRollout(), row_of("cls_row")
    yield "alti", "alti", ALTI(), lambda outputs: row_of("cls_row")(outputs["alti"])
    yield "alti", "alti_l2", ALTI("l2"), lambda outputs: row_of("cls_row")(outputs["alti_l2"])
    yield "globenc", "cls_row", GlobEnc(), row_of("cls_row")
    for setting, arguments in SETTINGS.items():
        yield "decompx", f"{setting}, classes", DecompX(**arguments), decompx(setting, "classifier")
        yield "decompx", f"{setting}, norm", DecompX(**arguments, score="norm"), decompx(setting, "importance_norm")
    yield "decompx", "no_biases, reverse form", DecompXReverse(), decompx("no_biases", "classifier")
    for pooling in ("sum", "l2"):
        yield "captum_ig", pooling, IntegratedGradients(pooling=pooling), row_of(pooling)
    yield "captum_ig", "local_l2", IntegratedGradients(multiply_by_inputs=False), row_of("local_l2")
    yield "sig", "occlusion_difference", SequentialIntegratedGradients(), row_of("occlusion_difference")
    yield "sig", "sum", SequentialIntegratedGradients(), row_of("sum")
    yield "sig", "l2", SequentialIntegratedGradients("l2"), row_of("l2")


def difference(case: Golden, method: AttributionMethod, read_expected: ReadExpected) -> tuple[float, float]:
    """Returns the largest absolute difference, and the largest magnitude of the expected scores."""
    gap, scale = 0.0, 0.0
    scores = method.scores(case.model, case.inputs, case.targets).detach()
    for row, record in zip(scores, case.outputs, strict=True):
        expected = read_expected(record["outputs"])
        expected = expected.expand(len(row), -1) if expected.dim() == 1 else expected
        gap = max(gap, float((row[:, : expected.shape[1]] - expected).abs().max()))
        scale = max(scale, float(expected.abs().max()))
    return gap, scale


def solvex(case: Golden) -> Iterator[tuple[str, float]]:
    """Yields the differences of objectives and of ranks, with the authors' beam."""
    suppressions: dict[Erasure, str] = {"delete": "remove", "mask": "mask"}  # the authors' words
    for erasure, suppression in suppressions.items():
        for metric in get_args(Objective):
            method = Solvex(metric, beam_size=10, beams="orders", erasure=erasure)
            records = [record["outputs"][suppression][metric.replace("_", "-")] for record in case.outputs]
            labels = torch.tensor([[record["label"]] for record in records])
            ranks, objectives = method.solve(case.model, case.inputs, labels)
            expected = torch.tensor([record["score"] for record in records], dtype=torch.float64)
            yield f"{suppression} {metric}, objective", float((objectives[:, 0] - expected).abs().max())
            gaps = [
                float((row[: len(record["ranks"])] - torch.tensor(record["ranks"])).abs().max())
                for row, record in zip(ranks[:, 0], records, strict=True)
            ]
            yield f"{suppression} {metric}, ranks", max(gaps)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    print(f"{'file':<22}{'numbers':<28}{'network':<14}{'absolute':>10}{'relative':>10}")
    for file, numbers, method, read_expected in comparisons():
        for name in GOLDEN_MODELS:
            case = load_golden(folder, file, name)
            gap, scale = difference(case, method, read_expected)
            print(f"{file:<22}{numbers:<28}{name:<14}{gap:>10.1e}{gap / scale:>10.1e}", flush=True)
    for name in GOLDEN_MODELS:
        for numbers, gap in solvex(load_golden(folder, "solvex", name)):
            print(f"{'solvex':<22}{numbers:<28}{name:<14}{gap:>10.1e}{'-':>10}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
