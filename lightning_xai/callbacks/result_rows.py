"""Rows of the results table, and the interface of the callbacks that add rows."""

from __future__ import annotations

from typing import NotRequired, Protocol, runtime_checkable

from lightning_xai.callbacks.cost import NO_COST, CostPerExample, MetricSegments


class ResultRow(CostPerExample, MetricSegments):
    """One row of the results table, without the columns that are constant over a run."""

    split: str
    preset: str
    method: str
    metric: str
    value: float
    num_examples: int
    num_skipped: int
    num_evidence_cut: int  # number of skipped explanations that lost all their evidence to truncation
    selected_on: NotRequired[str]  # metric by which the method chose among several scores; "" if it did not choose
    left_out: NotRequired[str]  # reason why the value is missing; "" if it is not


@runtime_checkable
class ResultSource(Protocol):
    """A callback that adds rows to the results table at the end of `test` and `validate`.

    Example:
        >>> from lightning import Callback
        >>> from lightning_xai.callbacks.stability import Stability
        >>> isinstance(Stability(["tm/seed*"]), ResultSource), isinstance(Callback(), ResultSource)
        (True, False)
    """

    def result_rows(self) -> list[ResultRow]:
        """Returns the callback's rows for the last evaluation."""
        ...


def left_out_row(split: str, preset: str, method: str, metric: str, reason: str) -> ResultRow:
    """Returns a row of the results table that gives the reason why a metric of a method has no value.

    Example:
        >>> left_out_row("test", "eraser", "alti", "rationale", "a BiLSTM has no layers")["left_out"]
        'a BiLSTM has no layers'
    """
    return ResultRow(
        split=split, preset=preset, method=method, metric=metric, value=float("nan"), num_examples=0, num_skipped=0,
        num_evidence_cut=0, left_out=reason, **NO_COST,
    )  # fmt: skip
