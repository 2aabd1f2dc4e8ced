"""Measures PLM-CA on a long note: versions of the note by segment and as whole notes, and a training step.

    python tests/benchmarks/notes.py [--codes 50,8900] [--tokens 6000] [--versions 50] [--threads 1] [--rows occlusion]
    python tests/benchmarks/notes.py --rows lime,kernel_shap,integrated_gradients [--samples 60] [--captum 2]

The network has MiniLM's shape and random weights. Times are processor seconds, so that another
process does not change them much; extra memory is the growth of resident memory at the peak. "whole" is the time that
a version takes as a whole note with the scores of all codes, measured on --versions versions and multiplied by the
number of distinct versions. "ratio" is whole over the time by segment. The limit of the ratio is the number of segments
of the note. "floor" is the time by segment over that of forward passes over the distinct segments alone. A training
step is one forward and backward pass, with plain or fused attention of the head, with layers computed again, and with
the row "bf16" under autocast to bfloat16. LIME, KernelSHAP and IntegratedGradients are timed on --samples samples (or
steps) and multiplied by the default number, unless --samples is 0. --captum is the number of samples (or steps) of
captum's run for one code, which computes all codes; its time is multiplied by the default number and by the number of
explained codes. "bounded" is AttInGrad with the graph of the whole note and of 8 segments. Progress goes to
stderr twice a minute.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--codes", type=lambda text: [int(part) for part in text.split(",")], default=[50, 8900])
parser.add_argument("--tokens", type=int, default=6000)
parser.add_argument("--versions", type=int, default=50, help="versions that are measured as whole notes")
parser.add_argument("--occluded", type=int, help="occlude the first tokens only; default all")
parser.add_argument("--explained", type=int, default=14, help="number of explained codes")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--samples", type=int, default=60, help="measured samples or steps; 0 measures all")
parser.add_argument("--captum", type=int, default=0, help="samples or steps of captum's run; 0 leaves it out")
parser.add_argument("--rows", default="occlusion,faithfulness,bounded,training,bf16", help="what is measured")
options = parser.parse_args()
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(options.threads)
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
from cells import LONG, extra_memory, random_inputs, timed  # noqa: E402
from peers import PEERS  # noqa: E402
from torch import Tensor  # noqa: E402

from lightning_xai.attributions.att_in_grad import AttInGrad  # noqa: E402
from lightning_xai.attributions.base import AttributionMethod  # noqa: E402
from lightning_xai.attributions.by_segment import BySegment  # noqa: E402
from lightning_xai.attributions.integrated_gradients import IntegratedGradients  # noqa: E402
from lightning_xai.attributions.kernel_shap import KernelSHAP  # noqa: E402
from lightning_xai.attributions.lime import LIME  # noqa: E402
from lightning_xai.attributions.occlusion import Occlusion  # noqa: E402
from lightning_xai.callbacks.gradient_checkpointing import checkpoint_layers  # noqa: E402
from lightning_xai.functional.classes.class_outputs import logits_only  # noqa: E402
from lightning_xai.functional.erasure.evaluate import Versions, predict_of  # noqa: E402
from lightning_xai.functional.erasure.perturbation import perturbed_outputs  # noqa: E402
from lightning_xai.metrics.faithfulness import Comprehensiveness, Sufficiency  # noqa: E402
from lightning_xai.metrics.predict_once import PredictOnce  # noqa: E402
from lightning_xai.metrics.top_units import Counts, Range, Window  # noqa: E402
from lightning_xai.models.plm_ca import PLMCA  # noqa: E402
from lightning_xai.types import Attribution, Batch, TextInputs  # noqa: E402

CLASSES = options.explained


def measured(function: Callable[[], object]) -> tuple[float, float]:
    """Returns processor seconds per thread and extra memory in MiB of one run."""
    seconds: list[float] = []
    memory = extra_memory(lambda: seconds.append(timed(function, "cpu")), "cpu")
    return seconds[0] / options.threads, memory


def whole_note_seconds(model: PLMCA, inputs: TextInputs) -> float:
    """Returns the seconds of one version that is read as a whole note, with the scores of all codes."""

    def evaluate(inputs: TextInputs, embed_mask: Tensor | None = None) -> Tensor:
        return model(inputs).logits

    keep = ~torch.eye(inputs.input_ids.shape[1]).bool()[1 : 1 + options.versions]
    versions = Versions(torch.zeros(len(keep), dtype=torch.long), keep)
    seconds, memory = measured(lambda: perturbed_outputs(evaluate, inputs, versions, erasure="mask"))
    print(f"  whole notes: {seconds / len(keep):.3f} s a version, on {len(keep)}; {memory:.0f} MiB", flush=True)
    return seconds / len(keep)


class Segments:
    """Counts and tells the segments that a network encodes, and measures the time of passes over as many alone."""

    def __init__(self, model: PLMCA) -> None:
        self.model, self.number = model, 0
        self.told = time.monotonic()
        model.transformer.register_forward_hook(self.count)

    def count(self, _module: object, _arguments: object, output: object) -> None:
        self.number += len(output.last_hidden_state)  # type: ignore[attr-defined]
        if time.monotonic() > self.told + 30:
            self.told = time.monotonic()
            print(f"  {time.strftime('%H:%M:%S')}: {self.number:,} segments encoded", file=sys.stderr, flush=True)

    def start(self, label: str) -> None:
        """Counts from 0, for the row that begins."""
        self.number, self.told = 0, time.monotonic()
        print(f"  {time.strftime('%H:%M:%S')}: {label} begins", file=sys.stderr, flush=True)

    def seconds_each(self, inputs: TextInputs) -> float:
        size = self.model.segment_length
        columns = (torch.arange(32 * size) % options.tokens).view(32, size)
        segments = inputs.map(lambda t: t[0][columns] if t.dim() > 1 else t.expand(32))
        with torch.no_grad():
            times = [timed(lambda: self.model.segment_states(segments), "cpu") for _ in range(5)]
        return min(times) / 32 / options.threads


def by_segment(label: str, function: Callable[[], object], segments: Segments, each: float, whole: float) -> None:
    segments.start(label)
    seconds, memory = measured(function)
    print(
        f"  {label}: {seconds:.0f} s by segment, {whole:.0f} s whole (ratio {whole / seconds:.1f}), {segments.number} "
        f"segments, floor {seconds / (segments.number * each):.2f}, {memory:.0f} MiB",
        flush=True,
    )


def faithfulness(model: PLMCA, inputs: TextInputs) -> tuple[Callable[[], object], int]:
    """Returns comprehensiveness and sufficiency of random scores at k = 1 to 100, and the number of versions."""
    targets = torch.arange(CLASSES).unsqueeze(0)
    scores = torch.rand(1, CLASSES, inputs.input_ids.shape[1], generator=torch.Generator().manual_seed(0))
    attribution = Attribution(scores, targets, torch.ones_like(targets).bool(), inputs.token_mask)
    batch = Batch(inputs, torch.zeros(1, model.num_classes))
    ks = Range(first=1, last=100)
    kept = Sufficiency(Window(ks, window=100), erasure="mask", explained="all")
    erased = Comprehensiveness(Counts(ks), erasure="mask", explained="all")

    def update() -> None:
        predict = PredictOnce(predict_of(model), inputs)
        for metric in (erased, kept):
            metric.update(attribution, batch, predict)

    return update, 199 * CLASSES + 1  # without any unit, all classes have one version


SAMPLED: dict[str, Callable[[int | None], AttributionMethod]] = {
    "lime": lambda n: LIME(num_samples=n),
    "kernel_shap": lambda n: KernelSHAP(num_samples=n),
    "integrated_gradients": lambda n: IntegratedGradients(num_steps=n or 50, delta_tolerance=None),
}


def sampled(row: str, model: PLMCA, inputs: TextInputs, targets: Tensor) -> None:
    """Prints the time of a method by the number of its samples, or of all of them, and that of captum."""
    number = int(SAMPLED[row](None).passes(options.tokens - 2, 1).forward)
    method = SAMPLED[row](options.samples or None)
    made = int(method.passes(options.tokens - 2, 1).forward)
    seconds, memory = measured(partial(method.attribute, model, inputs, targets))
    total = f"{seconds / made:.2f} s each, {seconds / made * number:,.0f} s for {number:,}"
    print(f"  {row}: {seconds:.0f} s for {made:,} samples, {total}; {memory:.0f} MiB", flush=True)
    if options.captum:
        short = SAMPLED[row](options.captum)
        run = PEERS[type(short).__name__](short, model, inputs, targets[:, :1])
        seconds, memory = measured(run)
        each = seconds / int(short.passes(options.tokens - 2, 1).forward)
        all_runs = f"{each * number * CLASSES:,.0f} s for {number:,} in {CLASSES} runs"
        print(f"  {row}, captum: {each:.2f} s each, {all_runs}; {memory:.0f} MiB", flush=True)


def bounded(model: PLMCA, inputs: TextInputs, targets: Tensor) -> None:
    """Prints the time and memory of AttInGrad with the graph of 8 segments and of the whole note."""
    scores = {}
    for label, method in {"8 segments": BySegment(AttInGrad(), 8), "whole": AttInGrad()}.items():

        def run(label: str = label, method: AttributionMethod = method) -> None:
            scores[label] = method.attribute(model, inputs, targets).scores

        seconds, memory = measured(run)
        print(f"  AttInGrad, graph of {label}: {seconds:.1f} s, {memory:.0f} MiB", flush=True)
    gap = (scores["whole"] - scores["8 segments"]).abs().max() / scores["whole"].abs().max()
    print(f"  largest difference, as a fraction of the largest score: {float(gap):.1e}", flush=True)


def training_step(model: PLMCA, inputs: TextInputs, *, fused: bool, bf16: bool) -> None:
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        logits = logits_only(model, inputs) if fused else model(inputs).logits
    torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), torch.zeros(logits.shape)).backward()


def training(model: PLMCA, inputs: TextInputs, *, bf16: bool) -> None:
    """Prints the less of two times of each kind of step, and the more of their memory."""
    model.train()
    kinds = {"plain": (False, False), "fused": (True, False), "fused, layers again": (True, True)}
    if bf16:
        del kinds["plain"]
    for label, (fused, again) in kinds.items():
        checkpoint_layers(model, enabled=again)
        steps = [measured(partial(training_step, model, inputs, fused=fused, bf16=bf16)) for _ in range(2)]
        seconds, memory = min(step[0] for step in steps), max(step[1] for step in steps)
        name = f"training step, {label}{', bf16' if bf16 else ''}"
        print(f"  {name}: {seconds:.2f} s, {memory:.0f} MiB", flush=True)


def main() -> None:
    torch.set_num_threads(options.threads)
    rows = options.rows.split(",")
    inputs = random_inputs(1, options.tokens)
    for codes in options.codes:
        torch.manual_seed(0)
        model = PLMCA(config=LONG | {"vocab_size": 30522}, num_classes=codes).eval()
        limit = -(-options.tokens // model.segment_length)
        print(
            f"{codes:,} codes, {CLASSES} explained, {options.tokens:,} tokens, limit of the ratio {limit}", flush=True
        )
        targets = torch.arange(CLASSES).unsqueeze(0)
        segments = Segments(model)
        if "occlusion" in rows or "faithfulness" in rows:
            segments.start("whole notes")
            each = segments.seconds_each(inputs)
            whole = whole_note_seconds(model, inputs)
        if "faithfulness" in rows:
            function, number = faithfulness(model, inputs)
            by_segment("comprehensiveness + sufficiency, k = 1..100", function, segments, each, whole * number)
        if "occlusion" in rows:
            number = min(options.occluded or options.tokens, options.tokens - 2)
            first = torch.arange(options.tokens) <= number
            erasable = replace(inputs, token_mask=inputs.token_mask & first)
            run = partial(Occlusion().attribute, model, erasable, targets)
            by_segment(f"occlusion of {number} tokens", run, segments, each, whole * (number + 1))
        for row in SAMPLED:
            if row in rows:
                segments.start(row)
                sampled(row, model, inputs, targets)
        if "bounded" in rows:
            segments.start("bounded")
            bounded(model, inputs, targets)
        for row in ("training", "bf16"):
            if row in rows:
                segments.start(row)
                training(model, inputs, bf16=row == "bf16")


if __name__ == "__main__":
    main()
