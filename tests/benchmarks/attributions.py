"""Measures the time and memory of attribution methods, relative to a forward pass, captum and the authors' code.

    python tests/benchmarks/attributions.py [--methods LIME,ALTI] [--lengths 32,128] [--golden DIR] [--device cuda]

Methods explain MiniLM in float32 on one thread, with batch 1 and one class unless a line says otherwise. Texts over 512
tokens need a random network of MiniLM's size. Each cell runs in its own process, in which a forward pass (with the
method's attention kernel), the method and its peer take turns. The time is processor time (wall time on a GPU), the
shortest of the repeats. Extra memory is the growth of resident memory at the peak of a run. Captum explains one class
after another. "authors" are figures of the authors' code from cost.json in the golden folder: the same network and
shape of measurement, but on another day, so each is divided by its own forward pass. The exit status is 1 if a bar is
missed.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HF_HUB_OFFLINE"):
    os.environ[name] = "1"

from cells import CLASSES, CODES, NOTE, Cell, Result, Settings, measure  # noqa: E402
from peers import PEERS  # noqa: E402

ROWS = [
    Cell("random.Random"),
    Cell("attention.Attention"),
    Cell("rollout.AttentionRollout"),
    Cell("attention_gradient.AttentionGradient"),
    Cell("gradient.Gradient"),
    Cell("input_x_gradient.InputXGradient"),
    Cell("att_in_grad.AttInGrad"),
    Cell("integrated_gradients.IntegratedGradients"),
    Cell("gradient_shap.GradientSHAP"),
    Cell("sequential_integrated_gradients.SequentialIntegratedGradients", arguments=(("pooling", "sum"),)),
    Cell("sequential_integrated_gradients.SequentialIntegratedGradients", arguments=(("pooling", "l2"),)),
    Cell("deep_lift.DeepLift"),
    Cell("occlusion.Occlusion"),
    Cell("lime.LIME"),
    Cell("kernel_shap.KernelSHAP"),
    Cell("alti.ALTI"),
    Cell("glob_enc.GlobEnc"),
    Cell("decompx.DecompX"),
    Cell("decompx_reverse.DecompXReverse"),
    Cell("solvex.Solvex", arguments=(("beam_size", 2),)),
]
TABLE_LENGTHS = [32, 128, 512]
BAR_TOKENS = 64  # length of the texts for the bars of methods with a fixed number of passes
AUTHORS = {"DecompX": "decompx", "ALTI": "alti", "SequentialIntegratedGradients": "sig"}  # names in cost.json
NAN = math.nan


class Authors(NamedTuple):
    cost: float  # in forward passes of the same measurement
    mebibytes: float


@dataclass(frozen=True)
class Bar:
    """A number that must be at most (or at least) `limit`; NaN if there is nothing to compare with."""

    text: str
    cell: Cell
    value: Callable[[Result, Authors], float]
    limit: float
    at_least: bool = False


def sampled_bars(path: str) -> list[Bar]:
    name = path.rpartition(".")[2]
    cell = Cell(path, BAR_TOKENS, CLASSES, arguments=(("num_samples", 192),), floor=True, peer_classes=1)
    label = f"{name}, {CLASSES} classes, {BAR_TOKENS} tokens, 192 samples"
    return [
        Bar(f"{label}: time over the forward passes it needs", cell, lambda r, _: r.ours / r.floor, 1.15),
        Bar(
            f"{label}: times cheaper than captum class by class (timed on 1 class, times {CLASSES})",
            cell,
            lambda r, _: r.peer / r.ours,
            10,
            at_least=True,
        ),
    ]


def reverse_bars() -> list[Bar]:
    path, text = "decompx_reverse.DecompXReverse", "DecompXReverse, 2 classes"
    bars = [
        Bar(f"{text}, {tokens} tokens: forward passes", Cell(path, tokens, 2, eager=True), lambda r, _: r.cost, 4)
        for tokens in (32, 64, 128, 256, 512, 1024, 2048)
    ]
    long = Cell(path, 2048, 2, eager=True)
    return [*bars, Bar(f"{text}, 2,048 tokens: GB over what was resident", long, lambda r, _: gigabytes(r), 2)]


def gigabytes(result: Result) -> float:
    return result.mebibytes * 2**20 / 1e9


def path_bars() -> list[Bar]:
    arguments = (("num_steps", 50),)
    cell = Cell("integrated_gradients.IntegratedGradients", BAR_TOKENS, 1, 2, arguments, floor=True, peer_classes=1)
    text = f"IntegratedGradients, 50 steps, {BAR_TOKENS} tokens"
    return [
        Bar(f"{text}: time over its forward and backward passes", cell, lambda r, _: r.ours / r.floor, 1.1),
        Bar(f"{text}: time over captum's", cell, lambda r, _: r.ours / r.peer, 1),
    ]


def authors_bars() -> list[Bar]:
    decompx, alti = Cell("decompx.DecompX", 128), Cell("alti.ALTI", 128)
    return [
        Bar("DecompX, 128 tokens: cost over the authors'", decompx, lambda r, a: r.cost / a.cost, 1 / 3),
        Bar("DecompX, 128 tokens: memory over the authors'", decompx, lambda r, a: r.mebibytes / a.mebibytes, 1 / 8),
        Bar("ALTI, 128 tokens: times cheaper than the authors'", alti, lambda r, a: a.cost / r.cost, 30, at_least=True),
        Bar("ALTI, 1,024 tokens: GB over what was resident", Cell("alti.ALTI", 1024), lambda r, _: gigabytes(r), 4),
    ]


def note_bars(all_steps: bool) -> list[Bar]:
    """Returns the bars of PLM-CA on a long note: a method must finish within the memory limit, its time is printed."""
    steps = 50 if all_steps else 1
    label = "50 steps" if all_steps else f"50 steps (timed on {steps}, times {50 // steps})"
    rows = [
        ("AttInGrad", "att_in_grad.AttInGrad", (), 1),
        ("DecompXReverse", "decompx_reverse.DecompXReverse", (), 1),
        (
            f"IntegratedGradients, {label}",
            "integrated_gradients.IntegratedGradients",
            (("num_steps", steps),),
            50 / steps,
        ),
    ]
    return [
        Bar(
            f"{text}, PLM-CA of {CODES:,} codes, {NOTE:,} tokens, 14 explained: seconds",
            Cell(path, NOTE, 14, arguments=arguments, network="plm_ca", scale=scale),
            lambda r, _: r.ours,
            math.inf,
        )
        for text, path, arguments, scale in rows
    ]


def read_authors(folder: Path | None) -> dict[tuple[str, int], Authors]:
    """Returns the cost of the authors' code by class and number of tokens."""
    if folder is None:
        return {}
    names = {theirs: ours for ours, theirs in AUTHORS.items()}
    costs = {}
    for row in json.loads((folder / "cost.json").read_text())["rows"]:
        if row["method"] in names:
            seconds = row["estimated_s"] if row["method"] == "sig" else row["wall_s"]
            memory = row["max_rss_MiB"] - row["rss_before_MiB"]
            costs[names[row["method"]], row["length"]] = Authors(seconds / row["forward_s"], memory)
    return costs


@cache
def run(cell: Cell, settings: Settings) -> Result:
    """Measures the cell in its own process, which a server forks after it has loaded the libraries."""
    print(f"{cell.name} {dict(cell.arguments)} {cell.tokens} tokens, {cell.classes} classes", file=sys.stderr)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("forkserver")) as pool:
        try:
            return pool.submit(measure, cell, settings).result()
        except Exception as error:  # an error of the child does not end the other measurements
            return Result(error=f"{type(error).__name__}: {error}")


def next_seconds(times: list[tuple[int, float]], tokens: int) -> float:
    """Returns the seconds expected at `tokens`, extrapolated from (tokens, seconds) of shorter texts."""
    if not times:
        return 0.0
    (length, last), power = times[-1], 1.5
    if len(times) > 1:
        power = max(math.log(last / times[-2][1]) / math.log(length / times[-2][0]), 1.0)
    return last * (tokens / length) ** power


def number(value: float, digits: int = 1) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def table_lines(row: Cell, lengths: list[int], settings: Settings, authors: dict) -> list[str]:
    lines: list[str] = []
    times: list[tuple[int, float]] = []
    label = row.name + "".join(f" {value}" for _, value in row.arguments)
    label = label.replace("SequentialIntegratedGradients", "SequentialIG")
    for tokens in lengths:
        begin = f"{label:<22}{tokens:>5}"
        expected = next_seconds(times, tokens)
        if expected > settings.seconds:
            lines.append(f"{begin}  left out: {expected:.0f} s or so")
            continue
        result = run(replace(row, tokens=tokens, peer_classes=int(row.name in PEERS)), settings)
        if result.error:
            lines += textwrap.wrap(f"{begin}  failed: {result.error}", 79)
            continue
        theirs = authors.get((row.name, tokens), Authors(NAN, NAN))
        times.append((tokens, result.ours))
        peer, source = (result.peer / result.forward, "captum") if row.name in PEERS else (theirs.cost, "authors")
        lines.append(
            f"{begin}{1000 * result.ours:>9.1f}{result.cost:>9.2f}{result.passes:>7.0f}{number(result.mebibytes, 0):>6}"
            f"{number(peer):>9}{number(result.cost / peer, 3):>7}{'' if math.isnan(peer) else ' ' + source}"
        )
    return lines


def bar_lines(bar: Bar, settings: Settings, authors: dict) -> tuple[list[str], bool]:
    """Returns the lines of a bar, and False if it is missed."""
    result = run(bar.cell, settings)
    value = bar.value(result, authors.get((bar.cell.name, bar.cell.tokens), Authors(NAN, NAN)))
    kept = value >= bar.limit if bar.at_least else value <= bar.limit
    if result.error:
        word, text = "FAIL", f"{bar.text}: {result.error}"
    elif math.isnan(value):
        word, text, kept = "-", f"{bar.text}: nothing to compare with (--golden), or not measured on this system", True
    else:
        limit = "" if math.isinf(bar.limit) else f" (at {'least' if bar.at_least else 'most'} {bar.limit:.4g})"
        figures = f"; {1000 * result.ours:.0f} ms, {result.cost:.1f} forward, {number(result.mebibytes, 0)} MiB"
        if result.ours / result.eager < result.cost:  # False if it was not timed
            figures += f", {result.ours / result.eager:.1f} with eager attention"
        word, text = "pass" if kept else "FAIL", f"{bar.text}: {value:.3g}{limit}{figures}"
    return textwrap.wrap(f"{word:<5}{text}", 79, subsequent_indent=" " * 5), kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", type=lambda text: text.split(","), help="classes, separated by commas")
    parser.add_argument("--lengths", type=lambda text: [int(part) for part in text.split(",")], default=TABLE_LENGTHS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--golden", type=Path, help="folder with cost.json; default LIGHTNING_XAI_SHARED/golden")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seconds", type=float, default=15, help="limit of a cell; longer ones run once or not")
    parser.add_argument("--gibibytes", type=float, default=8, help="memory that one cell may take on the CPU")
    parser.add_argument("--all_steps", action="store_true", help="run all 50 steps on the long note, 20 minutes")
    parser.add_argument("--bars_only", action="store_true")
    options = parser.parse_args()
    if options.golden is None and "LIGHTNING_XAI_SHARED" in os.environ:
        options.golden = Path(os.environ["LIGHTNING_XAI_SHARED"]) / "golden"
    multiprocessing.get_context("forkserver").set_forkserver_preload(
        ["captum.attr", "lightning_xai.models.hf_classifier", "lightning_xai.models.plm_ca"]
    )
    settings = Settings(options.device, options.repeats, options.seconds, options.gibibytes)
    known = {row.name for row in ROWS}
    if unknown := set(options.methods or []) - known:
        parser.error(f"--methods names {sorted(unknown)}: choose from {sorted(known)}")
    chosen = set(options.methods or known)
    authors = read_authors(options.golden)
    if not options.bars_only:
        print(
            f"MiniLM, {options.device}, batch 1, 1 class, least of {options.repeats}; cost, floor and peer in forward"
        )
        print("passes of the same length; ratio: cost over the peer's; extra memory in MiB")
        print(f"{'method':<22}{'tokens':>5}{'ms':>8}{'cost':>9}{'floor':>7}{'MiB':>6}{'peer':>9}{'ratio':>7}")
        for row in ROWS:
            if row.name in chosen:
                print(*table_lines(row, sorted(options.lengths), settings, authors), sep="\n", flush=True)
        print()
    bars = [*sampled_bars("lime.LIME"), *sampled_bars("kernel_shap.KernelSHAP"), *authors_bars(), *reverse_bars()]
    bars += [*path_bars(), *note_bars(options.all_steps)]
    kept = []
    for bar in bars:
        if bar.cell.name in chosen:
            lines, ok = bar_lines(bar, settings, authors)
            print(*lines, sep="\n", flush=True)
            kept.append(ok)
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
