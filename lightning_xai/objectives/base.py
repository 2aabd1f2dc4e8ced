"""Base class of training objectives: a LightningModule with optimizer, learning rate schedule and evaluation."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

import torch
from lightning import LightningModule
from lightning.pytorch.cli import OptimizerCallable
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.class_outputs import logits_only
from lightning_xai.metrics.classification import ClassificationMetrics
from lightning_xai.models.base import Classifier, encoder_and_head
from lightning_xai.models.checkpoints.architecture_match import check_architecture, network_spec
from lightning_xai.models.checkpoints.checkpoint import check_format, stored_encoder
from lightning_xai.models.checkpoints.class_order import NAME_THEM, align_classes, pretrained_class_names
from lightning_xai.models.pretrained.pretrained_weights import WeightGaps, gap_lines
from lightning_xai.objectives.checks import check_precision, check_twice_differentiable, check_uncompiled
from lightning_xai.objectives.fused import use_fused_kernel
from lightning_xai.objectives.schedules import Decay, warmup_decay
from lightning_xai.runs.encoder_facts import EncoderFacts
from lightning_xai.runs.format import FORMAT
from lightning_xai.runs.progress import say
from lightning_xai.runs.splits import VALIDATION, log_prefix
from lightning_xai.types import Batch


class Objective(LightningModule, ABC):
    """Trains a network to minimize the "loss" that `losses` returns. Evaluation is the same for all objectives.

    A subclass defines `losses`. If the loss contains a gradient, the subclass sets `needs_double_backward`. The
    network then uses eager attention, which can be differentiated twice. A loss is a mean over the examples of a
    micro-batch. In an optimizer step, Lightning gives equal weights to all micro-batches and processes, so an example
    in a smaller micro-batch has a larger weight. If an option makes the loss depend on the micro-batches in any other
    way, the description of the option says so, and `independent_of_batch` is False.

    Args:
        network: the classifier. Every checkpoint stores its Python class and the arguments to rebuild it.
        optimizer: function that returns an optimizer for given parameters. Adam and AdamW use their fused kernel where
            the device has one, unless an argument such as `foreach` is set.
        warmup_fraction: fraction of all steps during which the learning rate rises linearly from 0.
        decay: the learning rate after the warm-up: "linear" (falls to 0) or "constant".
        head_lr_factor: factor of the learning rate for the classification head, whose weights usually start at random.
        network_classes: for each class of the network, in the order of the logits, the name of this class in the data.
            If None, the names that are stored with the network are used.

    Attributes:
        decision_threshold: [] probability above which a multi-label network predicts a class. Validation tunes this
            threshold; it is 0.5 before tuning and for single-label networks.
        val_metrics: classification metrics on the validation split, reset after every validation.
        test_metrics: name of a test split -> classification metrics on this split, in the order of the test loaders.
        test_results: name of a test split -> pair of a dictionary (metric name -> value) and the number of examples.
        own_passes: cost of a training step in forward passes (a backward pass costs 2), without a subclass's `terms`.

    Raises:
        ValueError: a number is out of range, or the loss contains a gradient although the network was compiled.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.types import TextInputs
        >>> class SquaredError(Objective):
        ...     def losses(self, batch):
        ...         probs = self.network.probabilities(self.network(batch.inputs).logits)
        ...         return {"loss": (1 - probs.gather(1, batch.labels.unsqueeze(1))).square().mean()}
        >>> batch = Batch(TextInputs.of_ids([[1, 5, 2], [1, 6, 2]]), torch.tensor([0, 1]))
        >>> 0 < SquaredError(random_bert()).losses(batch)["loss"].item() < 1
        True
    """

    needs_double_backward: bool = False
    own_passes: float = 3.0
    independent_of_batch: bool = True  # False if, by definition, examples in a batch affect each other's losses
    decision_threshold: Tensor

    def __init__(
        self,
        network: Classifier,
        optimizer: OptimizerCallable = lambda p: torch.optim.AdamW(p, lr=5e-5, weight_decay=0.0),
        warmup_fraction: float = 0.1,
        decay: Decay = "linear",
        head_lr_factor: float = 1.0,
        network_classes: list[str] | None = None,
    ) -> None:
        super().__init__()
        require_choices({"decay": Decay}, {"decay": decay})
        if head_lr_factor <= 0:
            raise ValueError(f"head_lr_factor is {head_lr_factor}: give a factor above 0")
        if not 0 <= warmup_fraction <= 1:
            raise ValueError(f"warmup_fraction is {warmup_fraction}: give a number from 0 to 1 (fraction of all steps)")
        self.network = network
        self.network_classes = network_classes
        self._class_names = pretrained_class_names(network, network_classes)
        self._network_origin = str(network.init_args.get("path"))
        self.optimizer = optimizer
        self.warmup_fraction = warmup_fraction
        self.decay: Decay = decay
        self.head_lr_factor = head_lr_factor
        self.register_buffer("decision_threshold", torch.tensor(0.5))
        self.val_metrics = ClassificationMetrics(network.num_classes, network.multilabel)
        self.test_metrics: dict[str, ClassificationMetrics] = {}
        self.test_results: dict[str, tuple[dict[str, Tensor], int]] = {}
        self._run_seed: int | None = None  # set at its first use, since seed_everything may run after construction
        if self.needs_double_backward:
            self.use_double_backward()

    def use_double_backward(self) -> None:
        """Prepares the network for a loss that contains a gradient. Raises ValueError if the network was compiled.

        To minimize such a loss, training differentiates the gradient, so the network is differentiated twice.
        """
        check_uncompiled(self.network, type(self).__name__)
        self.needs_double_backward = True
        self.network.set_attention("eager")

    @abstractmethod
    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Returns name -> scalar. The scalar "loss" is minimized, and all scalars are logged as train/<name>."""

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        losses = self.losses(batch)
        loss = losses["loss"]
        if not torch.isfinite(loss):
            raise ValueError(
                f"the loss of the examples with indices {batch.index.tolist()} is {loss.item()}: lower the learning "
                "rate, or train in float32 or bf16-mixed instead of 16-mixed"
            )
        logged = {f"train/{name}": value.detach() for name, value in losses.items()}
        self.log_dict(logged, batch_size=len(batch), prog_bar=False)
        self.log("loss", loss.detach(), batch_size=len(batch), prog_bar=True, logger=False)
        return loss

    @property
    def run_seed(self) -> int:
        """The seed given to `seed_everything`, or torch's initial seed if `seed_everything` was not called."""
        if self._run_seed is None:
            self._run_seed = int(os.environ.get("PL_GLOBAL_SEED", torch.initial_seed()))
        return self._run_seed

    @property
    def step_seed(self) -> int:
        """A seed for the current micro-batch: the same on all processes, and in resumed and uninterrupted runs."""
        num_batches = self.trainer.fit_loop.total_batch_idx if self._trainer else 0
        return (self.run_seed + 1_000_003 * num_batches) % 2**63

    @property
    def data_module(self) -> Any:
        """The trainer's data module; None if there is no trainer, or if the trainer was given loaders instead."""
        return getattr(self._trainer, "datamodule", None)

    def take_encoder(self, stored: EncoderFacts | None, path: str) -> None:
        """Passes a network's learned vocabulary to the data, and checks that both use the same tokenizer.

        Args:
            stored: facts about the network's text encoder; None if they are not known.
            path: path of the network, for messages.

        Raises:
            ValueError: the tokenizers differ, so token ids would not mean the same as in the network's training.
        """
        if hasattr(self.data_module, "take_encoder"):  # data modules of other packages may lack this method
            self.data_module.take_encoder(stored, path)

    def setup(self, stage: str) -> None:
        """Checks the trainer and the data before training or evaluation.

        Raises:
            ValueError: the weights would not stay in float32, a text is too long for the network, the vocabulary is
                larger than the network's embedding table, the classes of network and data differ, or the loss contains
                a gradient although the network cannot be differentiated twice.
        """
        if self._trainer is not None:
            check_precision(str(self._trainer.precision))
        self._check_lengths()
        if self.data_module is not None:
            self.network.check_vocabulary(self.data_module.vocab_size)
            self._class_names = align_classes(
                self.network, self._class_names, self.data_module.class_names, self._network_origin, remedy=NAME_THEM
            )
        if stage != "fit":
            return
        self.network.train()  # otherwise, Lightning would keep a pretrained network in eval mode, without dropout
        if self.needs_double_backward:
            check_twice_differentiable(self, self.network)

    def _check_lengths(self) -> None:
        for name, split in getattr(self.data_module, "splits", {}).items():
            self.network.check_length(int(split.lengths.max()), f"an example of split {name}")

    def on_train_start(self) -> None:
        for line in gap_lines(self.network.weight_gaps, str(self.network.init_args.get("path"))):
            say(line)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        # every micro-batch has its own seed, so a resumed run draws the same dropout masks as an uninterrupted run
        torch.manual_seed((self.step_seed + self.global_rank) % 2**63)

    def evaluate(self, batch: Batch) -> dict[str, Tensor]:
        """Returns "logits" and "probs" (probabilities), both [B, C].

        Raises:
            ValueError: a logit is not finite; the message lists the indices of the examples with such logits.
        """
        logits = logits_only(self.network, batch.inputs)
        finite = logits.isfinite().all(dim=-1)
        if not finite.all():
            raise ValueError(
                f"logits of examples with indices {batch.index[~finite].tolist()} are not finite: evaluate in float32"
            )
        return {"logits": logits, "probs": self.network.probabilities(logits)}

    def validation_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        outputs = self.evaluate(batch)
        self.val_metrics.update(outputs["probs"], batch.labels, batch.index, outputs["logits"])
        return outputs

    def on_validation_epoch_end(self) -> None:
        if self.network.multilabel:
            self.decision_threshold.fill_(self.val_metrics.best_threshold())
        values = self.val_metrics.compute(threshold=float(self.decision_threshold))
        values.pop("num_examples")
        values |= self.more_validation_values()
        self.log_dict({f"{log_prefix(VALIDATION)}/{name}": value for name, value in values.items()}, prog_bar=False)
        self.val_metrics.reset()

    @property
    def more_validation_names(self) -> list[str]:
        """Names of the values in `more_validation_values` that are losses, for which lower values are better."""
        return []

    def more_validation_values(self) -> dict[str, Tensor]:
        """Returns name -> scalar: more values to log in validation (by default, none). Called on all processes."""
        return {}

    def on_test_epoch_start(self) -> None:
        splits = self.data_module.test_splits if self.data_module is not None else ["test"]
        num_classes, multilabel = self.network.num_classes, self.network.multilabel
        self.test_metrics = {s: ClassificationMetrics(num_classes, multilabel).to(self.device) for s in splits}

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        outputs = self.evaluate(batch)
        split = list(self.test_metrics)[dataloader_idx]
        self.test_metrics[split].update(outputs["probs"], batch.labels, batch.index, outputs["logits"])
        return outputs

    def on_test_epoch_end(self) -> None:
        threshold = float(self.decision_threshold)
        for split, metric in self.test_metrics.items():
            values = metric.compute(threshold=threshold)
            num_examples = int(values.pop("num_examples"))
            self.test_results[split] = (values, num_examples)
            self.log_dict({f"{log_prefix(split)}/{name}": value for name, value in values.items()})
            metric.reset()

    def predict_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Tensor]:
        return self.evaluate(batch)

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Returns the parameters to train, in groups; by default, those of the encoder and those of the head."""
        return encoder_and_head(self.network)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = self.optimizer([{"params": group} for group in self.parameter_groups()])
        for head in optimizer.param_groups[1:]:
            head["lr"] *= self.head_lr_factor
        use_fused_kernel(optimizer)
        scheduler = warmup_decay(
            optimizer, num_steps=self.num_steps(), warmup_fraction=self.warmup_fraction, decay=self.decay
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def num_steps(self) -> int:
        """Returns the number of optimizer steps of the whole training."""
        num_steps = self.trainer.estimated_stepping_batches
        if num_steps == float("inf"):
            raise ValueError("the number of training steps is unknown: set trainer.max_epochs or trainer.max_steps")
        return int(num_steps)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["format"] = FORMAT
        checkpoint["network"] = network_spec(self.network)
        data = self.data_module
        if data is not None:
            checkpoint["class_names"] = list(data.class_names)
        if hasattr(data, "encoder_facts"):
            checkpoint["encoder"] = {"data_module": type(data).__qualname__, **data.encoder_facts()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        check_format(checkpoint)
        if "network" in checkpoint:
            check_architecture(checkpoint["network"], self.network, "the checkpoint")
        else:
            say("the checkpoint does not store the network's architecture: only the shapes of weights are compared")
        if "encoder" in checkpoint:
            self.take_encoder(stored_encoder(checkpoint), str(self.trainer.ckpt_path or "the checkpoint"))
        self.network.weight_gaps = WeightGaps()  # the checkpoint has all trained weights: none is left at random
