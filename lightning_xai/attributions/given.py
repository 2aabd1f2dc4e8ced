"""Gives methods what only a run knows: its data, the texts of its inputs, and the scorer that it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lightning_xai.attributions.aml import AMLAttribution
from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.cached import Cached
from lightning_xai.models.scorer.scorer_checkpoint import TrainedScorer
from lightning_xai.models.scorer.scorer_tokenizer import TextRows


def with_parts(methods: Iterable[AttributionMethod]) -> Iterator[AttributionMethod]:
    """Yields each method, followed by the methods that it contains at any depth.

    Example:
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> from lightning_xai.attributions.transformed import Transformed
        >>> [type(method).__name__ for method in with_parts([Transformed(Gradient(), ["absolute"])])]
        ['Transformed', 'Gradient']
    """
    for method in methods:
        yield method
        yield from with_parts(method.parts())


def give_data(methods: Iterable[AttributionMethod], data: Any) -> None:
    """Gives every Cached method the data module, so that the method can check that its scores fit the data.

    Args:
        methods: the methods. Methods that they contain get the data module, too.
        data: the data module. A data module without `encoder_facts` is ignored.

    Example:
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> give_data([Gradient()], data=None)
    """
    for method in with_parts(methods):
        if isinstance(method, Cached) and hasattr(data, "encoder_facts"):
            method._data = data


def give_scorer(methods: Iterable[AttributionMethod], source: Callable[[], TrainedScorer] | None) -> None:
    """Gives the objective's scorer to each AMLAttribution whose `scorer` is None.

    Args:
        methods: the methods that a run evaluates. Methods that they contain get the scorer, too.
        source: function that returns the scorer; called at the first explanation. None if the objective has no scorer.

    Example:
        >>> give_scorer([AMLAttribution(scorer=None)], None)
    """
    for method in with_parts(methods):
        if isinstance(method, AMLAttribution) and method.scorer is None:
            method._source, method._trained, method._checked = source, None, ()


def give_texts(methods: Iterable[AttributionMethod], texts: TextRows | None) -> None:
    """Gives the raw texts of the explained inputs to every AMLAttribution.

    Args:
        methods: the methods that a run evaluates. Methods that they contain get the texts, too.
        texts: function (split, row) -> RowText (a text and its explainable tokens); None if the texts are not known.

    Example:
        >>> give_texts([AMLAttribution(scorer=None)], None)
    """
    for method in with_parts(methods):
        if isinstance(method, AMLAttribution):
            method._texts = texts
