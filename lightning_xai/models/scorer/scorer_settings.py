"""The settings with which a new scorer is built for a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lightning_xai.functional.choices import require_choices
from lightning_xai.models.base import Classifier
from lightning_xai.models.pretrained.transformers_config import architecture_config
from lightning_xai.models.scorer.token_scorer import Condition, TokenScorer
from lightning_xai.runs.progress import say

Start = Literal["pretrained", "explained"]
Align = Literal["none", "max", "mean"]


@dataclass(frozen=True)
class Scorer:
    """Settings of the scorer.

    Args:
        path: folder, hub id or "package:NAME/FOLDER" of the scorer's encoder; None takes the pretrained encoder with
            which the training of the explained network began.
        condition: what the scorer reads besides the text. With "probabilities", it reads the probabilities that the
            explained network predicts, and explains the predicted class only. With "class", it reads a one-hot class,
            and explains this class, predicted or not. In training, half of the texts get a class that is not predicted.
        start: initial weights of the encoder: "pretrained" takes the weights at the encoder's path, "explained" those
            of the explained network.
        align: "none" if the tokenizer at `path` is the explained network's. With "max" or "mean", the scorer scores
            tokens of its own tokenizer. Each token of the explained network then gets the maximum or mean score of the
            scorer's tokens with which it shares characters.

    Raises:
        ValueError: `start` is "explained" although `path` is given, or `align` is not "none" although `path` is None.

    Example:
        >>> Scorer(condition="class").start
        'pretrained'
    """

    path: str | None = None
    condition: Condition = "probabilities"
    start: Start = "pretrained"
    align: Align = "none"

    def __post_init__(self) -> None:
        literals = {"condition": Condition, "start": Start, "align": Align}
        require_choices(literals, {"condition": self.condition, "start": self.start, "align": self.align})
        if self.path is not None and self.start == "explained":
            raise ValueError(f"start is 'explained', but the scorer has the path {self.path}: leave out start or path")
        if self.path is None and self.align != "none":
            raise ValueError(
                f"align is {self.align}, but the scorer has the explained network's tokenizer: set scorer.path"
            )

    @property
    def alignment(self) -> dict[str, str] | None:
        """A dictionary with the "path" of the scorer's own tokenizer and with "pool", the value of `align`.

        None if the scorer uses the explained network's tokenizer.
        """
        return None if self.align == "none" else {"path": str(self.path), "pool": self.align}

    def build(self, network: Classifier) -> TokenScorer:
        """Returns a new scorer for a network.

        Raises:
            ValueError: the network is not a Hugging Face network, and the scorer has no path.
        """
        path: str | None = self.path or network.init_args.get("path")
        options: dict[str, Any] = {"num_classes": network.num_classes, "condition": self.condition}
        options["trust_remote_code"] = bool(network.init_args.get("trust_remote_code", False))
        if path is not None and self.start == "pretrained":
            return TokenScorer(path, **options)
        transformer: Any = getattr(network, "transformer", None)
        if transformer is None:
            raise ValueError(f"{type(network).__name__} has no encoder from transformers: set scorer.path")
        if self.start == "pretrained":
            say("the scorer's encoder starts with random weights, because no path to pretrained weights is given")
        return TokenScorer(config=architecture_config(transformer.config), **options)
