"""Checks the order of callbacks: a callback that uses attributions must come after one that computes them."""

from __future__ import annotations

from collections.abc import Sequence

from lightning import Callback

from lightning_xai.callbacks.base import AttributionSource, ExplainedReceiver


def check_order(callbacks: Sequence[Callback]) -> None:
    """Raises ValueError if a callback would receive no attributions, or if attributions are computed but never used.

    If only one callback computes attributions, they may be unused, because this callback also measures costs.

    Example:
        >>> class Printed(Callback):
        ...     def on_explained(self, explained):
        ...         print(explained.split)
        >>> check_order([Printed()])
        Traceback (most recent call last):
        ValueError: Printed has on_explained, but no ComputeAttributions precedes it: move it after a ...
    """
    source: Callback | None = None
    is_used = True
    num_sources = 0
    for callback in callbacks:
        if isinstance(callback, AttributionSource):
            if source is not None and not is_used:
                raise ValueError(
                    f"{_named(source)} is followed by {_named(callback)}, and no callback between them uses the "
                    "attributions of the first: put the methods of both into one ComputeAttributions, or put a "
                    "callback such as AttributionEvaluation after each of the two"
                )
            source, is_used = callback, False
            num_sources += 1
        elif isinstance(callback, ExplainedReceiver):
            is_used = True
            if source is None:
                raise ValueError(
                    f"{getattr(callback, 'label', type(callback).__name__)} has on_explained, but no "
                    "ComputeAttributions precedes it: move it after a ComputeAttributions in trainer.callbacks"
                )
    if source is not None and not is_used and num_sources > 1:  # one source alone is useful: it measures costs
        raise ValueError(
            f"no callback after {_named(source)} uses its attributions, and callbacks before it do not receive them: "
            "put a callback such as AttributionEvaluation after it, or move its methods into the preceding "
            "ComputeAttributions"
        )


def _named(source: Callback) -> str:
    return f"{type(source).__name__}({', '.join(getattr(source, 'methods', {}))})"
