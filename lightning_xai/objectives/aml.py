"""Pretrains AML's scorer. The scorer learns which tokens of a text determine a frozen network's prediction."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning import LightningDataModule, Trainer
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn

from lightning_xai.functional.erasure.evaluate import predict_of
from lightning_xai.functional.text.scorer_inputs import ScorerInputs
from lightning_xai.metrics.base import AttributionMetric
from lightning_xai.metrics.predict_once import PredictOnce
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash, checkpoint_path, load_trained, read_checkpoint
from lightning_xai.models.checkpoints.class_order import check_class_order
from lightning_xai.models.checkpoints.loading import copy_weights
from lightning_xai.models.checkpoints.pretrained_network import is_pretrained_at, pretrained_network
from lightning_xai.models.pretrained.lora import merge_adapters
from lightning_xai.models.scorer.dual_mask import DualMask, masked_losses
from lightning_xai.models.scorer.explained_file import AML as AML_KEY
from lightning_xai.models.scorer.explained_file import PRETRAINED
from lightning_xai.models.scorer.scorer_checkpoint import TrainedScorer, scorer_tokenizer_of
from lightning_xai.models.scorer.scorer_settings import Scorer
from lightning_xai.models.scorer.scorer_tokenizer import scorer_inputs_of, text_rows
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.schedules import Decay
from lightning_xai.objectives.trained_first import TrainedFirst
from lightning_xai.runs.encoder_facts import tokenizer_at
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.runs.splits import VALIDATION, log_prefix
from lightning_xai.types import Attribution, Batch, TextInputs


class AML(Objective):
    """Pretrains a scorer that explains a frozen network. The loss is the dual-mask loss of AML.

    The scorer reads a text and the network's prediction, and gives each token a mask value between 0 and 1. A value of
    1 keeps the token's embedding; a value of 0 replaces it (by default, by the embedding of the fill token). The scorer
    learns to give small mask values under which the network's prediction stays the same. When the mask is inverted, the
    prediction should change. The attribution method `AMLAttribution` explains texts with the scorer.

    Checkpoints contain the scorer, and the path and hash of the explained network instead of its weights. Loading a
    network from such a checkpoint returns the explained network.

    Args:
        network: a network with the architecture of the explained network. `setup` copies the explained network's
            weights into it.
        explained: a checkpoint, run folder or model folder of the explained network; or a YAML file (`.yaml`) with the
            settings of a run that first trains this network. If it is the `path` of `network`, the pretrained network
            itself is explained, for example a language model that classifies texts by a prompt.
        metric: the metric that rates the scorer on the validation split and thus chooses the best checkpoint. The
            metric's value is logged as `val/aml/<name>`. Set `checkpoint.monitor` to this tag, and
            `trainer.val_check_interval` to 0.32 as in the paper.
        loss: settings of the dual-mask loss. The paper searches for the best factors of this loss, separately for each
            metric.
        scorer: settings of the scorer.
        more_metrics: other metrics, which are logged in the same way, but do not affect the choice of the checkpoint.

    Raises:
        ValueError: the network is multi-label, the explained network does not exist, or a metric cannot rate scorers.
            `setup` raises it if the explained network and the data differ in the classes or their order, if the weights
            of the explained network do not fit `network`, if `explained` is itself an AML run, or if a text is too long
            for the scorer.

    Example:
        >>> import tempfile
        >>> from lightning_xai.metrics.faithfulness import Comprehensiveness
        >>> from lightning_xai.metrics.top_units import Percentages
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     random_bert().transformer.save_pretrained(folder)
        ...     metric, scorer = Comprehensiveness(Percentages([20])), Scorer(start="explained")
        ...     objective = AML(random_bert(), folder, metric, scorer=scorer)
        ...     objective.setup("fit")
        >>> batch = Batch(TextInputs.of_ids([[1, 5, 2]], special_ids=[1, 2]), torch.tensor([0]))
        >>> sorted(objective.losses(batch))
        ['inverse', 'kept', 'loss', 'mean_mask', 'size', 'skipped']

    Reference: Barkan et al. (2024), "LLM Explainability via Attributive Masking Learning", Section 3.1.
    Differs: in the authors' code, the scorer starts with the explained network's weights (`scorer.start: explained`).
    """

    # cost of a training step in forward passes: 1 for the prediction, 3 for the scorer (its forward pass costs 1, its
    # backward pass 2), and 2 for each of two masked passes (the backward pass, which stops at the embeddings, costs 1)
    own_passes = 1 + 3 + 2 * 2

    def __init__(
        self,
        network: Classifier,
        explained: str,
        metric: AttributionMetric,
        optimizer: OptimizerCallable = lambda p: torch.optim.AdamW(p, lr=4e-5, weight_decay=0.01),
        warmup_fraction: float = 0.0,
        decay: Decay = "linear",
        loss: DualMask = DualMask(),  # noqa: B008  # frozen
        scorer: Scorer = Scorer(),  # noqa: B008  # frozen
        more_metrics: list[AttributionMetric] | None = None,
    ) -> None:
        super().__init__(network, optimizer, warmup_fraction, decay)
        if network.multilabel:
            raise ValueError(
                "AML explains single-label networks, but this network is multi-label: set `multilabel: false` for the "
                "network, and use single-label data"
            )
        measured = [metric, *(more_metrics or [])]
        for one in measured:
            one.require_selection()
        if len({one.name for one in measured}) < len(measured):
            raise ValueError(
                f"metric and more_metrics together are {[one.name for one in measured]}: give each metric only once"
            )
        self._source = TrainedFirst(explained, "explained")
        self.explained = explained
        self.metric = metric
        self.more_metrics = nn.ModuleList(more_metrics or [])
        self.dual_mask = loss
        self.scorer_settings = scorer
        # with "class", a text's loss depends on its position in the batch, which decides its class (see `conditions`)
        self.independent_of_batch = scorer.condition == "probabilities"
        self.scorer = scorer.build(network)
        self._tokenizer = scorer_tokenizer_of(self.scorer, scorer.alignment)
        self._facts: dict[str, str] = {}  # path of the explained network, and hashes of its file and weights

    @property
    def monitors(self) -> dict[str, str]:
        """Log tag of the metric that chooses the checkpoint -> "max" if higher values are better, otherwise "min"."""
        tag, mode = next(iter(self.measured_directions.items()))
        return {tag: mode}

    @property
    def measured_directions(self) -> dict[str, str]:
        """Log tag of each metric -> "max" if higher values are better, otherwise "min".

        The first metric chooses the checkpoint.
        """
        return {
            f"{log_prefix(VALIDATION)}/aml/{metric.name}": "max" if metric.higher_is_better else "min"
            for metric in self._measured()
        }

    def _measured(self) -> list[Any]:
        return [self.metric, *self.more_metrics]

    def trained_scorer(self) -> TrainedScorer:
        """Returns the scorer itself (not a copy) with the facts that a checkpoint stores about it."""
        group = self.optimizer([nn.Parameter(torch.zeros(1))]).param_groups[0]
        lr, weight_decay = float(group["lr"]), float(group.get("weight_decay", 0.0))
        tokenizer = self._tokenizer, self.scorer_settings.alignment
        return TrainedScorer(self.scorer, self.dual_mask, lr, weight_decay, self.metric.name, self._facts, *tokenizer)

    def _scorer_inputs(self, inputs: TextInputs, split: str) -> ScorerInputs:
        return scorer_inputs_of(self._tokenizer, inputs, split, text_rows(self.data_module))

    def runs_before(self, trainer: Trainer, data: LightningDataModule) -> list[str]:
        """Returns command-line options for the run that trains the explained network, or [] if no run is needed."""
        return self._source.runs_before(trainer)

    def runs_after(self, trainer: Trainer, data: LightningDataModule) -> list[str]:
        """Returns []: nothing is trained after the scorer."""
        return []

    def setup(self, stage: str) -> None:
        path = self._source.trained_path(self._trainer)
        self._refuse_aml(path)
        super().setup(stage)
        merge_adapters(self.network)  # the explained network has none: they were merged when it was loaded
        own = checkpoint_path(path) is None and is_pretrained_at(self.network, path)
        trust = bool(self.network.init_args.get("trust_remote_code"))
        trained = pretrained_network(self.network) if own else load_trained(path, trust_remote_code=trust)
        if self.data_module is not None:
            check_class_order(trained.class_names, self.data_module.class_names, path)
        # the learned vocabulary is left out, so that this call only compares the tokenizers. The data cannot load a
        # vocabulary anymore, because the texts are already token ids
        self.take_encoder(trained.encoder and {**trained.encoder, "learned": {}}, path)
        if self.scorer_settings.path is not None and self._tokenizer is None:
            self.take_encoder(tokenizer_at(self.scorer_settings.path), self.scorer_settings.path)
        splits = {} if self._tokenizer is not None else getattr(self.data_module, "splits", {})
        for name, split in splits.items():
            self.scorer.check_length(int(split.lengths.max()), f"an example of split {name}")
        if not own:
            copy_weights(trained.network, self.network, path)
        self.network.requires_grad_(False)
        self.train(stage == "fit")
        # Lightning warns about modules in eval mode, but the explained network must stay in this mode
        warnings.filterwarnings("ignore", message=r"Found \d+ module\(s\) in eval mode at the start of training")
        if self.scorer_settings.start == "explained":
            self.scorer.copy_encoder(self.network.transformer)
        place = str(Path(path).resolve()) if Path(path).exists() else path
        self._facts = {"path": place, "hash": checkpoint_hash(path), "weights": weights_hash(self.network)}
        if own:
            self._facts[PRETRAINED] = "true"
        if Path(path).exists() and self._trainer is not None:
            self._facts["relative"] = Path(os.path.relpath(place, self._trainer.default_root_dir)).as_posix()

    def _refuse_aml(self, path: str) -> None:
        """Raises ValueError if `path` is an AML run, because its checkpoint contains a scorer instead of a network."""
        file = checkpoint_path(path)
        facts = None if file is None else read_checkpoint(path).get(AML_KEY)
        if facts is not None:
            raise ValueError(
                f"{path} is an AML run: give the network that this run explains, {facts['explained']['path']}"
            )

    def train(self, mode: bool = True) -> AML:
        super().train(mode)
        self.network.eval()  # so that the explained network uses no dropout
        return self

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Returns name -> scalar for the batch.

        "loss" and its parts "kept", "inverse" and "size" are means over the texts with explainable tokens. "mean_mask"
        is the mean mask value of the explainable tokens. "skipped" is the number of texts without explainable tokens.
        """
        usable = batch.inputs.token_mask.any(dim=1)
        skipped = (~usable).sum().float()
        inputs = batch.inputs[usable] if skipped else batch.inputs
        if not len(inputs):
            nothing = self.scorer.z.sum() * 0
            return {name: nothing for name in ("loss", "kept", "inverse", "size")} | {"skipped": skipped}
        y = self.conditions(inputs)
        scorer_inputs = self._scorer_inputs(inputs, "train")
        logits = self.scorer(scorer_inputs.inputs, y)
        terms = masked_losses(self.network, inputs, y, logits, self.dual_mask, scorer_inputs)
        masks = logits.detach().sigmoid()[scorer_inputs.inputs.token_mask]
        means = {name: value.mean() for name, value in terms.items()}
        return means | {"mean_mask": masks.float().mean(), "skipped": skipped}

    @torch.no_grad()
    def conditions(self, inputs: TextInputs) -> Tensor:
        """Returns the scorer's second input [B, C]: probabilities, or one-hot classes if `scorer.condition` is "class".

        With "class", every second text gets the one-hot vector of its predicted class. Each of the other texts gets the
        one-hot vector of a random class other than its predicted class. A random draw decides whether the texts at even
        or at odd positions of the batch get their predicted class.
        """
        probs = self.network.probabilities(self.network(inputs).logits)
        if self.scorer.condition == "probabilities":
            return probs
        seed = (self.step_seed if self.training else 0) + self.global_rank
        generator = torch.Generator().manual_seed(seed % 2**63)
        first = int(torch.randint(2, (1,), generator=generator))
        others = torch.randint(1, self.network.num_classes, (len(inputs),), generator=generator)
        others[first::2] = 0
        label = (probs.argmax(dim=1) + others.to(probs.device)) % self.network.num_classes
        return nn.functional.one_hot(label, self.network.num_classes).to(probs)

    def validation_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        outputs = super().validation_step(batch, batch_idx)
        probs, inputs = outputs["probs"], batch.inputs
        targets = probs.argmax(dim=1, keepdim=True)
        one_hot = nn.functional.one_hot(targets[:, 0], probs.shape[1]).to(probs)
        scorer_inputs = self._scorer_inputs(inputs, VALIDATION)
        logits = self.scorer(scorer_inputs.inputs, probs if self.scorer.condition == "probabilities" else one_hot)
        scores = scorer_inputs.keep(logits.float()).masked_fill(~scorer_inputs.token_mask, 0.0).unsqueeze(1)
        attribution = Attribution(scores, targets, torch.ones_like(targets, dtype=torch.bool), inputs.token_mask)
        predict = PredictOnce(predict_of(self.network), inputs, pad_id=self.network.pad_id)
        for metric in self._measured():
            metric.update(attribution, batch, predict)
        return outputs

    def more_validation_values(self) -> dict[str, Tensor]:
        values = super().more_validation_values()
        for metric in self._measured():
            values[f"aml/{metric.name}"] = metric.compute()[metric.name].float().to(self.device)
            metric.reset()
        return values

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        return [[p for p in self.scorer.parameters() if p.requires_grad]]

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # torch has overloads
        """Returns the state without the explained network's weights, which are stored in that network's own file."""
        state = super().state_dict(*args, **kwargs)
        return {name: value for name, value in state.items() if not name.startswith("network.")}

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        network_state = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        return super().load_state_dict({**network_state, **state_dict}, *args, **kwargs)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint[AML_KEY] = self.trained_scorer().facts()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        before, now = checkpoint.get(AML_KEY, {}).get("explained", {}), self._facts
        if before and now and before["hash"] != now["hash"]:
            raise ValueError(
                f"the checkpoint's scorer explains the network {before['path']} (hash {before['hash']}), but this run "
                f"explains {now['path']} (hash {now['hash']}): restore the former network, or start a new run"
            )
