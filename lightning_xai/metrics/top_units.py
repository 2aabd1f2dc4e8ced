"""Arguments that several metrics share: the ranking of a text's units, and the numbers k of top units."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.erasure.units import Unit
from lightning_xai.functional.scores.ranking import Rounding, percent_of, token_ranks
from lightning_xai.functional.scores.signs import Sign, with_sign
from lightning_xai.types import TextInputs


@dataclass(frozen=True)
class Ranking:
    """Ranks the units of a text by descending score. Of units with equal scores, the first in the text ranks higher.

    Args:
        unit: "token" or "word". The score of a word is the sum of its tokens' scores.
        sign: sign of the scores that are summed and ranked; `with_sign` describes the options.

    Example:
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 7]], special_ids=[1])
        >>> ranks, num_units = Ranking(sign="absolute").ranks(torch.tensor([[[9.0, 1.0, -3.0, 2.0]]]), inputs)
        >>> ranks.tolist(), num_units.tolist()  # the special token is not ranked and gets T = 4
        ([[[4, 2, 0, 1]]], [3])
    """

    unit: Unit = "token"
    sign: Sign = "signed"

    def __post_init__(self) -> None:
        require_choices({"unit": Unit, "sign": Sign}, {"unit": self.unit, "sign": self.sign})

    def ranks(self, scores: Tensor, inputs: TextInputs, ranked: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns two tensors: [B, K, T], the rank of each token's unit, from 0; and [B], each text's number of units.

        Tokens that are not ranked get T instead of a rank. Scores are ranked on the CPU, so that the order of equal
        scores does not depend on the device. Both results are on the CPU.

        Args:
            scores: [B, K, T].
            inputs: the B scored texts.
            ranked: [B, T] bool, the tokens that are ranked; by default, those of `inputs.token_mask`.

        Raises:
            ValueError: words are ranked, but the inputs have no word ids.
        """
        return token_ranks(
            with_sign(scores.double(), self.sign).cpu(),
            (inputs.token_mask if ranked is None else ranked).cpu(),
            self.word_ids(inputs),
        )

    def word_ids(self, inputs: TextInputs) -> Tensor | None:
        """Returns the word id [B, T] of each token, on the CPU; returns None if the units are tokens.

        Raises:
            ValueError: the units are words, but the inputs have no word ids.
        """
        if self.unit == "token":
            return None
        if inputs.word_ids is None:
            raise ValueError(
                "the inputs have no word_ids, so words cannot be ranked: provide word_ids, or set `unit` to token"
            )
        return inputs.word_ids.cpu()


@dataclass(frozen=True)
class Range:
    """Evenly spaced whole numbers.

    Args:
        first: the first number.
        last: upper limit of the numbers, inclusive.
        every: distance between one number and the next.

    Example:
        >>> Range(first=0, last=6, every=2).numbers()
        [0, 2, 4, 6]
    """

    first: int
    last: int
    every: int = 1

    def __post_init__(self) -> None:
        if self.every < 1 or self.last < self.first:
            raise ValueError(f"{self} holds no number: give last >= {self.first} and every >= 1")

    def numbers(self) -> list[int]:
        """Returns the numbers `first`, `first` + `every`, `first` + 2 * `every`, and so on, up to `last`."""
        return list(range(self.first, self.last + 1, self.every))


@dataclass(frozen=True)
class Percentages:
    """Numbers k of top units, given as percentages of the number of units in a text.

    Args:
        percentages: percent in [0, 100]; each percentage gives one k.
        rounding: how k is rounded to a whole number. Before rounding, k is computed without floating-point error.
        minimum: smallest k; in a text with fewer units, k is the number of units.

    Example:
        >>> sizes = Percentages([10, 50], rounding="ceil")
        >>> sizes.names, sizes.of(torch.tensor([5, 20])).tolist()  # two texts, of 5 and of 20 units
        (('10', '50'), [[1, 3], [2, 10]])
    """

    percentages: list[float]
    rounding: Rounding = "ceil"
    minimum: int = 0

    def __post_init__(self) -> None:
        if not self.percentages:
            raise ValueError("percentages is empty: list at least one percentage of a text's units")
        self.of(torch.ones(1, dtype=torch.long))  # raises an error for a percentage outside [0, 100]

    @property
    def names(self) -> tuple[str, ...]:
        """One name for each percentage, such as "10"."""
        return tuple(f"{percentage:g}" for percentage in self.percentages)

    def of(self, totals: Tensor) -> Tensor:
        """Returns [B, J] long: the J numbers of top units for each of B texts. Text i has `totals[i]` units."""
        sizes = [percent_of(totals, p, rounding=self.rounding, minimum=self.minimum) for p in self.percentages]
        return torch.stack(sizes, dim=1)


@dataclass(frozen=True)
class Counts:
    """Fixed numbers k of top units; in a text with fewer units, k is the number of units.

    Args:
        counts: the numbers k, each at least 0.

    Example:
        >>> Counts(Range(first=1, last=3)).of(torch.tensor([2, 20])).tolist()  # two texts, of 2 and of 20 units
        [[1, 2, 2], [1, 2, 3]]
    """

    counts: list[int] | Range

    def __post_init__(self) -> None:
        if not self.numbers or min(self.numbers) < 0:
            raise ValueError(f"counts are {self.numbers}: give one or more numbers of at least 0")

    @property
    def numbers(self) -> list[int]:
        """The numbers in `counts`, as a list."""
        return self.counts.numbers() if isinstance(self.counts, Range) else self.counts

    @property
    def names(self) -> tuple[str, ...]:
        """One name for each number in `counts`, such as "5"."""
        return tuple(f"{count:g}" for count in self.numbers)

    def of(self, totals: Tensor) -> Tensor:
        """Returns [B, J] long: the J numbers of top units for each of B texts. Text i has `totals[i]` units."""
        counts = torch.tensor(self.numbers, device=totals.device).expand(len(totals), -1)
        return torch.minimum(counts, totals.unsqueeze(1))


@dataclass(frozen=True)
class Window(Counts):
    """Numbers of top units that decrease as k grows: for each k, the number is `window` - k, but at least 0.

    Args:
        counts: the numbers k, each at least 0.
        window: number of top units for k = 0. In a text with fewer units, the number of its units replaces `window`.

    Example:
        >>> Window([0, 1, 2], window=3).of(torch.tensor([2, 20])).tolist()  # two texts, of 2 and of 20 units
        [[2, 1, 0], [3, 2, 1]]
    """

    window: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 1:
            raise ValueError(f"window is {self.window}: give at least 1 unit")

    def of(self, totals: Tensor) -> Tensor:
        """Returns [B, J] long: the J numbers of top units for each of B texts. Text i has `totals[i]` units."""
        counts = torch.tensor(self.numbers, device=totals.device)
        return (totals.clamp(max=self.window).unsqueeze(1) - counts).clamp(min=0)


Sizes = Percentages | Counts | Window
