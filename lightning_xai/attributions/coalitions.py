"""The base class of methods that erase some units of a text and score the units by the change in the output."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.erasure.erase import Erasure
from lightning_xai.functional.erasure.perturbation import Output, Versions, outputs_of, target_outputs
from lightning_xai.functional.erasure.units import Unit, count_units, kept_tokens, spread_over_tokens, token_units
from lightning_xai.functional.network.chunking import check_chunk_size
from lightning_xai.functional.seeds import example_indices
from lightning_xai.models.base import Classifier
from lightning_xai.types import Passes, TextInputs

# largest number of entries (coalitions times tokens) of the keep masks in memory, unless a single text has more entries
_MASK_ELEMENTS = 2**23
PREFLIGHT_SAMPLES = 8  # largest number of samples per text in a preflight (trial before a run)


class Coalitions(NamedTuple):
    """N coalitions of one example with M units, on the CPU. A coalition is a set of units that are kept.

    Example:
        >>> Coalitions(keep=torch.tensor([[True, True], [True, False]]), weights=torch.ones(2)).keep.sum(dim=1)
        tensor([2, 1])
    """

    keep: Tensor  # [N, M] bool, True where a coalition keeps a unit
    weights: Tensor  # [N] weight of each coalition, used by `unit_scores`


class CoalitionAttribution(AttributionMethod):
    """Scores units by the model's outputs for versions of the text that keep only some of its units.

    A unit is an explainable token or a word. The score of a word is divided equally among its tokens. The set of units
    that a version keeps is called a coalition. All classes of an example use the same versions. Versions of all
    examples share forward passes, and equal versions are evaluated once. Random coalitions depend only on the seed, the
    example's index and the example's number of units.

    A subclass defines `num_coalitions`, `coalitions` and `unit_scores`.

    Args:
        unit: "token" or "word".
        erasure: how units outside the coalition are erased: "delete" removes their tokens, "mask" replaces them by the
            fill token, "pad" by the padding token, and "embed_zero" sets their embeddings to 0.
        output: the output that is explained: the "logit" or the "probability" of the class.
        chunk_size: largest number of versions in one forward pass (perturbations_per_eval in captum). By default, it is
            chosen for the device. Scores do not depend on it.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> class WithoutOne(CoalitionAttribution):
        ...     def num_coalitions(self, num_units):
        ...         return 1 + num_units
        ...     def coalitions(self, num_units, index):
        ...         keep = torch.cat([torch.ones(1, num_units), 1 - torch.eye(num_units)]).bool()
        ...         return Coalitions(keep, torch.ones(1 + num_units))
        ...     def unit_scores(self, keep, weights, values, num_units):
        ...         return values[:, :1] - values[:, 1:]
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2])
        >>> method = WithoutOne("token", erasure="mask", output="logit", chunk_size=None)
        >>> scores = method.attribute(random_bert(), inputs, torch.tensor([[1]])).scores
        >>> logits = random_bert()(TextInputs.of_ids([[1, 5, 6, 2], [1, 0, 6, 2]])).logits[:, 1]
        >>> torch.allclose(scores[0, 0, 1], logits[0] - logits[1])  # 0 is the fill token
        True
    """

    passes_at_most = True

    def __init__(self, unit: Unit, erasure: Erasure, output: Output, chunk_size: int | None) -> None:
        require_choices(
            {"unit": Unit, "erasure": Erasure, "output": Output}, {"unit": unit, "erasure": erasure, "output": output}
        )
        check_chunk_size(chunk_size)
        self.unit: Unit = unit
        self.erasure: Erasure = erasure
        self.output: Output = output
        self.chunk_size = chunk_size

    @abstractmethod
    def num_coalitions(self, num_units: int) -> int:
        """Returns an upper bound on the number of different coalitions of an example with `num_units` >= 1 units."""

    @abstractmethod
    def coalitions(self, num_units: int, index: int | None) -> Coalitions:
        """Returns the coalitions of one example; there must be at least one coalition.

        Args:
            num_units: M >= 1, the number of units of the example.
            index: the example's index in its split; random coalitions depend on this index and the seed.
        """

    @abstractmethod
    def unit_scores(self, keep: Tensor, weights: Tensor, values: Tensor, num_units: Tensor) -> Tensor:
        """Returns the scores [B, M, K] of the units, computed from the model's outputs for the coalitions.

        All tensors are on the CPU. Every example is padded to N coalitions and M units.

        Args:
            keep: [B, N, M] bool, the coalitions; False in padding.
            weights: [B, N], the weights of the coalitions; 0 in padding.
            values: [B, N, K] float64, the outputs for the explained classes; 0 in padding.
            num_units: [B] long, each example's number of units.
        """

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        units = token_units(inputs, self.unit).cpu()
        scores = torch.zeros(*targets.shape, units.shape[1], dtype=torch.float64)
        for rows, coalitions in self._groups(units, inputs):
            values = self._values(model, inputs[rows], targets[rows], units[rows], [keep for keep, _ in coalitions])
            num_units = torch.tensor([keep.shape[1] for keep, _ in coalitions])
            padded_keep = [F.pad(keep, (0, int(num_units.max()) - keep.shape[1])) for keep, _ in coalitions]
            unit_scores = self.unit_scores(
                pad_sequence(padded_keep, batch_first=True),
                pad_sequence([weights for _, weights in coalitions], batch_first=True),
                pad_sequence(values, batch_first=True),
                num_units,
            )  # [B, M, K]
            scores[rows] = spread_over_tokens(unit_scores.transpose(1, 2), units[rows])
        # float64 only if the model is in float64, because not every device supports float64
        return scores.to(torch.promote_types(model.embedding_matrix.dtype, torch.float32)).to(inputs.device)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        """Returns an upper bound on the number of passes. Fewer are needed if units are words or coalitions repeat."""
        return Passes(forward=self.num_coalitions(num_tokens) if num_tokens else 0, backward=0)

    def erased_units(self, num_units: int) -> Tensor:
        """Returns [N, M] bool, True where a coalition erases a unit of the example with index 0.

        The example has M = `num_units` >= 1 units.
        """
        return ~self.coalitions(num_units, 0).keep

    def _groups(self, units: Tensor, inputs: TextInputs) -> Iterator[tuple[list[int], list[Coalitions]]]:
        """Yields groups of examples that fit in memory: the examples' positions in the batch, and their coalitions.

        Examples without units are left out.
        """
        rows: list[int] = []
        coalitions: list[Coalitions] = []
        num_elements = 0
        indices = example_indices(inputs)
        for row, num_units in enumerate(count_units(units).tolist()):
            if not num_units:
                continue  # nothing to explain: scores stay 0
            drawn = Coalitions(*self.coalitions(num_units, indices[row]))
            if rows and num_elements + len(drawn.keep) * units.shape[1] > _MASK_ELEMENTS:
                yield rows, coalitions
                rows, coalitions, num_elements = [], [], 0
            rows.append(row)
            coalitions.append(drawn)
            num_elements += len(drawn.keep) * units.shape[1]
        if rows:
            yield rows, coalitions

    def _values(
        self, model: Classifier, inputs: TextInputs, targets: Tensor, units: Tensor, keep: list[Tensor]
    ) -> list[Tensor]:
        """Returns a float64 tensor [N, K] per example: the outputs for its N coalitions in `keep` and its K classes."""
        sizes = [len(coalitions) for coalitions in keep]
        versions = Versions(
            torch.arange(len(inputs)).repeat_interleave(torch.tensor(sizes)),
            torch.cat([kept_tokens(*pair) for pair in zip(units, keep, strict=True)]),
        )
        outputs = target_outputs(
            outputs_of(model, self.output),
            inputs,
            targets,
            versions,
            erasure=self.erasure,
            pad_id=model.pad_id,
            chunk_size=self.chunk_size,
        )
        return list(outputs.split(sizes))
