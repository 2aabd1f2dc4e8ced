"""Cost of a training step of BiLSTM-attention, against its passes and against the same network on packed sequences.

    python tests/benchmarks/recurrent.py [--repeats 5]

A step is forward and backward on one thread, float32. A forward is 1 pass, a backward to all weights 2, so the floor is
3 forward passes without a graph; a step with a double backward (input gradient regularization) is 6 of them: forward 1,
its backward to the inputs 1, and the backward of both 4. The peer reads with one packed bidirectional `nn.LSTM`, as the
released codes do, and must give the same logits. The least processor time of the repeats counts.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lightning_xai.models.bilstm import BiLSTM, BiLSTMAttention
from lightning_xai.types import TextInputs

BATCH, EMBEDDING, HIDDEN, WORDS = 128, 300, 128, 1000


class PackedBiLSTM(nn.Module):
    """The twin of a `BiLSTM` that packs its right-padded rows."""

    def __init__(self, source: BiLSTM) -> None:
        super().__init__()
        self.lstm = nn.LSTM(EMBEDDING, HIDDEN, batch_first=True, bidirectional=True)
        both = {"": source.left_to_right, "_reverse": source.right_to_left}
        self.lstm.load_state_dict(
            {name + suffix: tensor for suffix, lstm in both.items() for name, tensor in lstm.state_dict().items()}
        )

    def forward(self, embeds: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        packed = pack_padded_sequence(embeds, keep.sum(dim=1), batch_first=True, enforce_sorted=False)
        packed, (last, _) = self.lstm(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=keep.shape[1])
        return states, last.transpose(0, 1).flatten(1)


def texts(length: int) -> TextInputs:
    """Returns right-padded rows of 87 to 100 % of `length` tokens, as a length bucket holds."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, WORDS, (BATCH, length), generator=generator)
    lengths = torch.randint(int(length / 1.15), length + 1, (BATCH, 1), generator=generator)
    lengths[0] = length
    keep = torch.arange(length) < lengths
    return TextInputs(ids.masked_fill(~keep, 0), keep, keep, ~keep & False, ids, index=torch.arange(BATCH))


def least_seconds(step: Callable[[], object], repeats: int) -> float:
    step()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        step()
        times.append(time.process_time() - began)
    return min(times)


def measure(network: BiLSTMAttention, inputs: TextInputs, repeats: int) -> dict[str, float]:
    """Returns processor seconds of a forward pass, a step, and a step with a double backward."""

    def forward() -> Tensor:
        with torch.no_grad():
            return network(inputs).logits

    def step() -> None:
        network(inputs).logits.logsumexp(dim=-1).sum().backward()

    def double() -> None:
        embeds = network.embed(inputs)
        loss = network(inputs, embeds).logits.logsumexp(dim=-1).sum()
        (gradient,) = torch.autograd.grad(loss, embeds, create_graph=True)
        (loss + gradient.norm()).backward()

    seconds = {"forward": least_seconds(forward, repeats), "step": least_seconds(step, repeats)}
    network.set_attention("eager")  # as objectives with a double backward do
    return seconds | {"double": least_seconds(double, repeats)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'tokens':>6}  {'step/floor':>10}  {'step/packed':>11}  {'double/floor':>12}  {'double/packed':>13}")
    for length in (20, 40, 120, 300):
        network = BiLSTMAttention(WORDS, embedding_size=EMBEDDING, hidden_size=HIDDEN)
        peer = BiLSTMAttention(WORDS, embedding_size=EMBEDDING, hidden_size=HIDDEN)
        peer.load_state_dict(network.state_dict())
        peer.add_module("encoder", PackedBiLSTM(network.encoder))
        inputs = texts(length)
        torch.testing.assert_close(peer(inputs).logits, network(inputs).logits)
        ours, packed = measure(network, inputs, repeats), measure(peer, inputs, repeats)
        print(
            f"{length:>6}  {ours['step'] / ours['forward'] / 3:>10.2f}  {ours['step'] / packed['step']:>11.2f}  "
            f"{ours['double'] / ours['forward'] / 6:>12.2f}  {ours['double'] / packed['double']:>13.2f}"
        )


if __name__ == "__main__":
    main()
