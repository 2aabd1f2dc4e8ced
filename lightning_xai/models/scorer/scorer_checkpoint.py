"""Loads the scorer of an AML run, and checks that a network is the one for which the scorer was pretrained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from lightning_xai.functional.text.scorer_inputs import ScorerInputs
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import read_checkpoint
from lightning_xai.models.scorer.dual_mask import DualMask
from lightning_xai.models.scorer.explained_file import AML
from lightning_xai.models.scorer.scorer_tokenizer import ScorerTokenizer, TextRows, scorer_inputs_of
from lightning_xai.models.scorer.token_scorer import TokenScorer
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.types import TextInputs

_PREFIX = "scorer."


@dataclass(frozen=True)
class TrainedScorer:
    """A pretrained scorer, and the settings with which it was pretrained.

    Attributes:
        scorer: the scorer, in eval mode.
        loss: settings of the loss.
        lr: initial learning rate of the pretraining.
        weight_decay: weight decay of the pretraining.
        selected_on: name of the metric by which the checkpoint was chosen.
        explained: "path" and "hash" of the explained network's file, and "weights", the hash of its weights.
        tokenizer: the scorer's own tokenizer; None if the scorer has the explained network's tokenizer.
        alignment: "path", the path of the scorer's own tokenizer, and "pool", how scores are pooled; None if the scorer
            has the explained network's tokenizer.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network = random_bert()
        >>> facts = {"path": "runs/f/seed0", "hash": "0a1b", "weights": weights_hash(network)}
        >>> config = network.architecture()["config"]
        >>> trained = TrainedScorer(TokenScorer(config=config), DualMask(), 4e-5, 0.01, "comprehensiveness", facts)
        >>> trained.check_explains(network)
        >>> trained.check_explains(random_bert(num_classes=3))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: the scorer explains the network runs/f/seed0 (weights hash ...), but this network has the ...
    """

    scorer: TokenScorer
    loss: DualMask
    lr: float
    weight_decay: float
    selected_on: str
    explained: Mapping[str, str]
    tokenizer: ScorerTokenizer | None = None
    alignment: Mapping[str, str] | None = None

    def scorer_inputs(self, inputs: TextInputs, split: str | None, texts: TextRows | None) -> ScorerInputs:
        """Converts inputs of the explained network to inputs of the scorer, see `scorer_inputs_of`."""
        return scorer_inputs_of(self.tokenizer, inputs, split, texts)

    def check_explains(self, network: Classifier) -> None:
        """Raises ValueError if `network` has other weights than the network for which the scorer was pretrained."""
        weights = weights_hash(network)
        if weights != self.explained["weights"]:
            raise ValueError(
                f"the scorer explains the network {self.explained['path']} (weights hash "
                f"{self.explained['weights']}), but this network has the weights hash {weights}: pretrain a scorer for "
                "this network"
            )

    def facts(self) -> dict[str, Any]:
        """Returns the facts that a checkpoint stores in addition to the scorer's weights, as primitives."""
        return {
            "scorer": self.scorer.architecture(),
            "loss": asdict(self.loss),
            "lr": self.lr,
            "weight_decay": self.weight_decay,
            "selected_on": self.selected_on,
            "explained": dict(self.explained),
            "alignment": None if self.alignment is None else dict(self.alignment),
        }


def load_scorer(path: str) -> TrainedScorer:
    """Returns the scorer of an AML run, from a checkpoint or a run folder. The global random state does not change.

    Raises:
        ValueError: there is no checkpoint at `path`, or it is not from an AML run.

    Example:
        >>> load_scorer("no/such/run")
        Traceback (most recent call last):
        ValueError: no/such/run: neither a checkpoint nor a run folder with checkpoints/best.ckpt or last.ckpt
    """
    checkpoint = read_checkpoint(path)
    facts = checkpoint.get(AML)
    if facts is None:
        raise ValueError(f"{path} holds no scorer: give the checkpoint or the run folder of an AML objective")
    with torch.random.fork_rng(devices=[]):
        scorer = TokenScorer(**facts["scorer"])
    state = {key: value for key, value in checkpoint["state_dict"].items() if key.startswith(_PREFIX)}
    scorer.load_state_dict({key.removeprefix(_PREFIX): value for key, value in state.items()})
    alignment = facts.get("alignment")  # missing in older checkpoints
    return TrainedScorer(
        scorer.eval(),
        DualMask(**facts["loss"]),
        facts["lr"],
        facts["weight_decay"],
        facts["selected_on"],
        facts["explained"],
        scorer_tokenizer_of(scorer, alignment),
        alignment,
    )


def scorer_tokenizer_of(scorer: TokenScorer, alignment: Mapping[str, Any] | None) -> ScorerTokenizer | None:
    """Returns a scorer's own tokenizer; None if the scorer has the explained network's tokenizer.

    Raises:
        ValueError: there is no fast tokenizer at the path, or it has more tokens than the scorer has word embeddings.
    """
    if alignment is None:
        return None
    tokenizer = ScorerTokenizer(alignment["path"], scorer.max_length, alignment["pool"])
    words = len(tokenizer.tokenizer)
    if words > scorer.num_words:
        raise ValueError(
            f"the tokenizer at {alignment['path']} has {words:,} tokens, but the scorer's encoder has only "
            f"{scorer.num_words:,} word embeddings: set scorer.path to an encoder with its own tokenizer"
        )
    return tokenizer
