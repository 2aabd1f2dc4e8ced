"""The values that a search may try for one setting: a range or a list of choices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Value = bool | int | float | str | None


@dataclass(frozen=True)
class Setting:
    """The values that a search may try for a setting: numbers from `low` to `high`, or a list of choices.

    Args:
        low: smallest value.
        high: largest value.
        log: whether values are spread evenly on a logarithmic scale, which suits learning rates.
        integer: whether only whole numbers are tried.
        choices: the values to try, instead of a range.

    Raises:
        ValueError: both a range and choices are given, or neither of them; `low` is not below `high`; `log` is True but
            `low` is not above 0; there are fewer than two different choices; or a choice is a list or a dictionary.

    Example:
        >>> Setting(low=1.0, high=3.0).at(0.25), Setting(choices=("token", "zero")).at(0.75)
        (1.5, 'zero')
        >>> Setting(low=1.0, high=1.0)
        Traceback (most recent call last):
        ValueError: low is 1.0 and high is 1.0: low must be below high
    """

    low: float | None = None
    high: float | None = None
    log: bool = False
    integer: bool = False
    choices: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if self.choices:
            if self.low is not None or self.high is not None or self.log or self.integer:
                raise ValueError("a setting has both choices and a range: remove the choices or the range")
            odd = [choice for choice in self.choices if not isinstance(choice, bool | int | float | str | None)]
            if odd or len(set(self.choices)) < 2:
                raise ValueError(f"choices are {list(self.choices)}: give two or more different numbers or words")
            return
        for name, number in (("low", self.low), ("high", self.high)):
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise ValueError(f"{name} is {number!r}: give low and high as numbers, or a list of choices")
            if self.integer and int(number) != number:
                raise ValueError(f"{name} is {number}, but integer is true: give a whole number")
        assert self.low is not None and self.high is not None
        if not self.low < self.high:
            raise ValueError(f"low is {self.low} and high is {self.high}: low must be below high")
        if self.log and self.low <= 0:
            raise ValueError(f"low is {self.low}, but log is true: low must be above 0")

    @classmethod
    def of(cls, key: str, values: Any) -> Setting:
        """Returns the Setting that a search file describes; `values` is the file's entry for the dotted key `key`.

        Raises:
            ValueError: the description is invalid; the message starts with the key.

        Example:
            >>> Setting.of("model.init_args.head_lr_factor", {"low": 1, "high": 10})
            Setting(low=1, high=10, log=False, integer=False, choices=())
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"{key} is {values!r}: give low and high, or choices")
        known = cls.__dataclass_fields__
        for name in values:
            if name not in known:
                raise ValueError(f"{key} has an unknown entry {name!r}: choose from {', '.join(known)}")
        for name in ("log", "integer"):
            if not isinstance(values.get(name, False), bool):
                raise ValueError(f"{key}: {name} is {values[name]!r}: give true or false")
        choices = values.get("choices", ())
        if not isinstance(choices, list | tuple):
            raise ValueError(f"{key} has choices {choices!r}: give a list")
        try:
            return cls(**{**values, "choices": tuple(choices)})
        except ValueError as error:
            raise ValueError(f"{key}: {error}") from error

    def at(self, position: float) -> Value:
        """Returns the value at a position in the range or list of choices: 0 is the start, and 1 (excluded) is the end.

        Example:
            >>> Setting(low=1, high=3, integer=True).at(0.99), Setting(low=1.0, high=4.0, log=True).at(0.5)
            (3, 2.0)
        """
        if self.choices:
            return self.choices[int(position * len(self.choices))]
        assert self.low is not None and self.high is not None
        first, last = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        if self.integer and not self.log:
            return int(first + math.floor(position * (last - first + 1)))
        number = first + position * (last - first)
        number = min(max(math.exp(number), self.low), self.high) if self.log else number
        return round(number) if self.integer else number
