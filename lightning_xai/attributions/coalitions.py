"""The interface of methods that evaluate a text with some of its units left, and explain what that changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.chunking import check_chunk_size
from lightning_xai.functional.erasure import Erasure
from lightning_xai.functional.perturbation import Output, Versions, outputs_of, target_outputs
from lightning_xai.functional.seeds import example_indices
from lightning_xai.functional.units import Unit, count_units, kept_tokens, spread_over_tokens, token_units
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

_MASK_ELEMENTS = 2**23  # coalitions held at once, in tokens; a long text may have more on its own


class CoalitionAttribution(AttributionMethod):
    """Scores units by the outputs of the model for coalitions of them: versions of the text in which they are left.

    A unit is an explainable token or a word. A word's score is divided equally among its tokens, so their sum is the
    word's score. One set of versions serves all classes. Coalitions of all examples share forward passes, equal ones
    are evaluated once, and random ones depend on the seed, the example's index and its number of units only.

    Args:
        unit: what a unit is, "token" or "word".
        erasure: how a unit outside the coalition is taken away, see `erase`.
        output: what is explained, the class's "logit" or its "probability".
        chunk_size: most versions in one forward pass (captum's perturbations_per_eval); None takes as many as suit the
            device. Results do not depend on it.
    """

    passes_at_most = True

    def __init__(self, unit: Unit, erasure: Erasure, output: Output, chunk_size: int | None) -> None:
        require_choices(
            {"unit": Unit, "erasure": Erasure, "output": Output}, {"unit": unit, "erasure": erasure, "output": output}
        )
        check_chunk_size(chunk_size)
        self.unit = unit
        self.erasure = erasure
        self.output = output
        self.chunk_size = chunk_size

    @abstractmethod
    def num_coalitions(self, num_units: int) -> int:
        """Returns how many different coalitions of M units, 1 at least, are evaluated at most."""

    @abstractmethod
    def coalitions(self, num_units: int, index: int | None) -> tuple[Tensor, Tensor]:
        """Returns coalitions [N, M] bool of one example with M units, 1 at least, and their weights [N].

        Both are on the CPU; N is 1 at least.
        """

    @abstractmethod
    def unit_scores(self, kept: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        """Returns scores [B, M, K], all tensors being on the CPU.

        Args:
            kept: [B, N, M] bool, the coalitions; rows and units that an example does not have are False.
            weights: [B, N], 0 for such rows.
            values: [B, N, K] float64, outputs for the explained classes, 0 for such rows.
            num_units: [B] long.
        """

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        units = token_units(inputs, self.unit).cpu()
        scores = torch.zeros(*targets.shape, units.shape[1], dtype=torch.float64)
        for rows, coalitions in self._groups(units, inputs):
            kept, weights = (list(parts) for parts in zip(*coalitions, strict=True))
            values = self._values(model, inputs[rows], targets[rows], units[rows], kept)
            counts = torch.tensor([some.shape[1] for some in kept])
            kept = [F.pad(some, (0, int(counts.max()) - some.shape[1])) for some in kept]
            kept, weights, values = (pad_sequence(parts, batch_first=True) for parts in (kept, weights, values))
            found = self.unit_scores(kept, weights, values, counts)  # [B, M, K]
            scores[rows] = spread_over_tokens(found.transpose(1, 2), units[rows])
        # float64 only where the model has it, as not every device does
        return scores.to(torch.promote_types(model.embedding_matrix.dtype, torch.float32)).to(inputs.device)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns the passes if every token is a unit and random coalitions differ; otherwise fewer are made."""
        return Passes(forward=self.num_coalitions(num_tokens) if num_tokens else 0, backward=0)

    def _groups(self, units: Tensor, inputs: TextInputs) -> Iterator[tuple[list[int], list[tuple[Tensor, Tensor]]]]:
        """Yields rows that have units, with their coalitions, as many at a time as memory should hold."""
        indices = example_indices(inputs)
        counts = count_units(units).tolist()
        rows, coalitions, elements = [], [], 0
        for row, (count, index) in enumerate(zip(counts, indices, strict=True)):
            if not count:
                continue  # nothing to explain: scores stay 0
            kept, weights = self.coalitions(count, index)
            if rows and elements + len(kept) * units.shape[1] > _MASK_ELEMENTS:
                yield rows, coalitions
                rows, coalitions, elements = [], [], 0
            rows.append(row)
            coalitions.append((kept, weights))
            elements += len(kept) * units.shape[1]
        if rows:
            yield rows, coalitions

    def _values(
        self, model: Classifier, inputs: TextInputs, targets: Tensor, units: Tensor, kept: list[Tensor]
    ) -> list[Tensor]:
        """Returns the outputs [N, K] in float64 of each example's coalitions [N, M], for its own classes only."""
        sizes = [len(coalitions) for coalitions in kept]
        versions = Versions(
            torch.arange(len(inputs)).repeat_interleave(torch.tensor(sizes)),
            torch.cat([kept_tokens(*pair) for pair in zip(units, kept, strict=True)]),
        )
        outputs = target_outputs(
            outputs_of(model, self.output),
            inputs,
            targets,
            versions,
            how=self.erasure,
            pad_id=model.pad_id,
            chunk_size=self.chunk_size,
        )
        return list(outputs.split(sizes))
