"""Base class of objectives that minimize the sum of their own loss and of terms chosen in the configuration."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from lightning.pytorch.trainer.states import TrainerFn
from torch import Tensor, nn

from lightning_xai.functional.network.modes import frozen
from lightning_xai.metrics.example_mean import ExampleMean
from lightning_xai.models.base import Classifier
from lightning_xai.models.forward_pass import Needs
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.expected_weight import expected_weight, require_validation_examples
from lightning_xai.objectives.terms.base import CleanPass, Task, Term, TermValue
from lightning_xai.objectives.terms.epoch_means import EpochMeans, check_epoch_means, smaller
from lightning_xai.objectives.terms.evaluation import needs_of, prepare_all, term_values
from lightning_xai.objectives.terms.gradient_check import try_term
from lightning_xai.objectives.terms.names import check_terms, label_of
from lightning_xai.objectives.terms.weights import check_weight, is_ever_active, weight_at, weighted_mean, weighted_sum
from lightning_xai.runs.progress import say
from lightning_xai.runs.splits import VALIDATION, log_prefix
from lightning_xai.types import Batch

VAL = log_prefix(VALIDATION)


class ComposedObjective(Objective):
    """Minimizes task_weight * (the objective's own loss) + the sum of weight * term over all terms.

    The objective's own loss and all terms share one forward pass over the unchanged inputs. A subclass defines `task`,
    and may override `own_loss` and `prepare`. In validation, every term whose `validate` is True is logged as
    val/<name>. The weighted sum of own loss and these terms, with the final weights, is val/loss (if any is above 0).

    Args:
        network: the classifier.
        terms: name -> term. A term is logged under its name.
        task_weight: factor of the objective's own loss; with 0, only the terms are minimized.
        **kwargs: arguments of `Objective`.

    Attributes:
        minima: smallest means of the losses so far: "train/<name>" over a training epoch, "val/<name>" over the
            validation split. <name> is the name of a term, or "task" for the objective's own loss.
        expected_weights: name of a term that defines weights of examples -> mean weight of a training example.

    Raises:
        ValueError: a term has a reserved name, a weight is negative, all weights are 0, or a term cannot train the
            network. `setup` raises it if a term cannot use the data, or gives every training example the weight 0.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> Supervised(random_bert(), task_weight=0.0)
        Traceback (most recent call last):
        ValueError: task_weight is 0 and no term has a weight above 0: set at least one weight above 0
    """

    def __init__(
        self,
        network: Classifier,
        *,
        terms: dict[str, Term] | None = None,
        task_weight: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(network, **kwargs)
        terms = terms or {}
        check_terms(terms)
        check_weight(task_weight, "task_weight")
        self.terms = nn.ModuleDict(terms)
        self.task_weight = task_weight
        self.independent_of_batch = self.independent_of_batch and all(t.independent_of_batch for t in terms.values())
        if not task_weight and not any(is_ever_active(term.weight) for term in terms.values()):
            raise ValueError("task_weight is 0 and no term has a weight above 0: set at least one weight above 0")
        for term in self.used_terms().values():
            term.check_network(network)
        needs = self._needs(self.used_terms())
        if needs.double_backward:
            self.use_double_backward()
        elif needs.eager:
            network.set_attention("eager")
        self.expected_weights: dict[str, float | None] = {}
        self.minima: dict[str, float] = {}
        # means over the validation split: of the objective's own loss (key "loss"), and of each term with validate=True
        self._means = {name: ExampleMean() for name in (["loss", *self._validated_terms()] if terms else [])}
        self._epoch = EpochMeans()

    @property
    def own_loss_reads_readout(self) -> bool:
        """Whether the objective's own loss also uses the readout (the head's weights on the tokens)."""
        return type(self).own_loss is not ComposedObjective.own_loss

    @abstractmethod
    def task(self, batch: Batch) -> Task:
        """Returns the network, the batch, and a function from logits to the objective's own loss for each example."""

    def prepare(self, task: Task) -> Any:
        """Returns the argument `prepared` of `own_loss` (by default, None). Called before the forward pass."""
        return None

    def own_loss(self, clean: CleanPass, prepared: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the objective's own loss (a scalar; by default, the mean over examples), and name -> value to log."""
        loss = clean.losses.mean()
        return loss, {"classification": loss}

    def trained_terms(self) -> dict[str, Term]:
        """Returns the terms that are minimized at some step."""
        return {name: term for name, term in self._all_terms() if is_ever_active(term.weight)}

    def used_terms(self) -> dict[str, Term]:
        """Returns the terms that are minimized at some step, or measured in validation."""
        return {name: term for name, term in self._all_terms() if is_ever_active(term.weight) or term.validate}

    def weights_now(self) -> dict[str, float]:
        """Returns name -> weight at this training step, for the terms with a weight above 0."""
        fraction = self._fraction_of_training()
        weights = {name: weight_at(term.weight, fraction) for name, term in self._all_terms()}
        return {name: weight for name, weight in weights.items() if weight > 0}

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage != "fit":
            return
        for name, term in self.used_terms().items():
            if self._trainer is not None:  # there is no trainer while laws.py checks the objective
                term.check_precision(str(self.trainer.precision), self.network)
            term.check_data(self.data_module)
            if term.weighs_examples:
                self.expected_weights[name] = expected_weight(self.data_module, term.example_weights)
                if self.expected_weights[name] == 0:
                    raise ValueError(
                        f"no training example has a weight above 0 in the term {name}: check that truncation leaves "
                        "some evidence, and that rationales are for gold classes"
                    )
                if self.needs_validation(name):
                    require_validation_examples(name, self.data_module, term.example_weights)

    def needs_validation(self, name: str) -> bool:
        """Returns whether a callback monitors the term `name`, either as val/<name> or as a part of val/loss."""
        callbacks = self.trainer.callbacks if self._trainer is not None else []  # type: ignore[attr-defined]
        monitored = {getattr(callback, "monitor", None) for callback in callbacks}
        totals = {f"{VAL}/loss"} if self.final_weights().get(name) else set()
        return self._term(name).validate and not monitored.isdisjoint({f"{VAL}/{name}", *totals})

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        weights = self.weights_now()
        terms = {name: term for name, term in self._all_terms() if name in weights}
        task = self.task(batch)
        prepared, own_prepared = prepare_all(terms, task), self.prepare(task)
        clean = CleanPass(task, self._needs(terms, embeds=bool(self.trained_terms())), create_graph=True)
        loss, logged = self.own_loss(clean, own_prepared)
        values = term_values(terms, clean, prepared)
        means = {name: self._mean(name, value, batch) for name, value in values.items()}
        for name, value in values.items():
            logged |= {name: means[name], **{f"{name}_{key}": scalar for key, scalar in value.logged.items()}}
        self._epoch.add("task", clean.losses, torch.ones_like(clean.losses))
        # DDP needs a gradient for every weight; 0 * logits gives a gradient of 0 to all weights on which logits depend
        anchor = 0.0 if self.minimizes_own_loss else 0.0 * clean.output.logits.sum()
        return {"loss": self.combined(loss, means, weights) + anchor, **logged}

    @property
    def minimizes_own_loss(self) -> bool:
        """Whether the minimized loss contains the objective's own loss."""
        return self.task_weight > 0

    @property
    def own_weight(self) -> float:
        """Weight of the objective's own loss in val/loss."""
        return self.task_weight

    def combined(self, own_loss: Tensor, values: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
        """Returns the scalar to minimize: `task_weight` * `own_loss` + the sum of weights[name] * values[name]."""
        return weighted_sum(values, weights, self.task_weight * own_loss)

    def on_train_start(self) -> None:
        super().on_train_start()
        if self.terms:
            shown = [f"{name} {self.shown_weight(name)} ({label_of(term)})" for name, term in self._all_terms()]
            say(f"terms: own loss {self.shown_weight('task')}, {', '.join(shown)}")

    @property
    def result_facts(self) -> dict[str, Any]:
        """Facts for the results of a test: class and settings of each term, as printed at the start of training."""
        return {"terms": {name: label_of(term) for name, term in self._all_terms()}} if self.terms else {}

    def shown_weight(self, name: str) -> str:
        """Returns the weight of a term, or of the own loss ("task"), as text for the line at the start of training."""
        weight = self._term(name).weight if name in self.terms else self.task_weight
        return str(weight) if isinstance(weight, list) else f"{weight:g}"

    def on_train_epoch_start(self) -> None:
        # if a fit resumes within an epoch, Lightning skips this hook, so there are no means over this epoch
        self._epoch.begin()

    def on_train_epoch_end(self) -> None:
        check_epoch_means(self._epoch_means())

    def _epoch_means(self) -> dict[str, float]:
        return self._epoch.means(lambda sums: torch.as_tensor(self.trainer.strategy.reduce(sums, reduce_op="sum")))

    def validation_step(self, batch: Batch, batch_idx: int) -> dict[str, Tensor]:
        outputs = super().validation_step(batch, batch_idx)
        if not self._means:
            return outputs
        terms = self._validated_terms()
        with torch.inference_mode(False):
            batch = batch.map(torch.clone)  # copies, because autograd refuses tensors that inference mode created
            task = self.task(batch)
            with frozen(self.network):
                values = self._term_values(task, terms, create_graph=False) if terms else {}
        losses = task.losses(outputs["logits"])
        self._means["loss"].update(losses, torch.ones_like(losses), batch.index)
        for name, value in values.items():
            self._means[name].update(value.values, terms[name].example_weights(batch), batch.index)
        return outputs

    def final_weights(self) -> dict[str, float]:
        """Returns name -> weight at the end of training, for the terms in val/loss."""
        return {name: weight_at(term.weight, 1.0) for name, term in self._validated_terms().items()}

    @property
    def is_in_training(self) -> bool:
        """Whether a trainer is fitting the objective; False during the sanity check before the first epoch."""
        trainer = self._trainer
        return trainer is not None and trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking

    @property
    def more_validation_names(self) -> list[str]:
        has_total = self.own_weight > 0 or any(self.final_weights().values())
        return [name for name in self._means if name != "loss" or has_total]

    def more_validation_values(self) -> dict[str, Tensor]:
        if not self._means:
            return {}
        means = {name: metric.to(self.device).compute() for name, metric in self._means.items()}
        for metric in self._means.values():
            metric.reset()
        named = {("task" if name == "loss" else name): float(mean) for name, mean in means.items()}
        if self.is_in_training:
            # in a validation before the end of a training epoch, the means over this epoch are not known yet
            epoch_means = self._epoch_means() if self.trainer.is_last_batch else {}
            train = {f"train/{name}": mean for name, mean in epoch_means.items()}
            self.minima = smaller(self.minima, {**train, **{f"val/{name}": mean for name, mean in named.items()}})
        total = weighted_sum(means, self.final_weights(), self.own_weight * means["loss"])
        values = means | {"loss": total}
        return {name: values[name].float().cpu() for name in self.more_validation_names}

    def term_values(self, batch: Batch, terms: dict[str, Term]) -> dict[str, TermValue]:
        """Returns name -> value on a batch for each of `terms`. The values can be differentiated."""
        return self._term_values(self.task(batch), terms, create_graph=True)

    def try_terms(self, batch: Batch) -> None:
        """Checks the gradient of every term that is ever minimized, on an example with a weight above 0 in this term.

        Raises:
            ValueError: as in `try_term`.
        """
        for name, term in self._all_terms():
            if is_ever_active(term.weight):
                try_term(term, partial(self.term_values, terms={name: term}), batch, self.data_module, self.network)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["minima"] = dict(self.minima)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self.minima = dict(checkpoint.get("minima", {}))

    def _term_values(self, task: Task, terms: dict[str, Term], *, create_graph: bool) -> dict[str, TermValue]:
        prepared = prepare_all(terms, task)
        return term_values(terms, CleanPass(task, self._needs(terms), create_graph=create_graph), prepared)

    def _mean(self, name: str, value: TermValue, batch: Batch) -> Tensor:
        term = self._term(name)
        weights = term.example_weights(batch)
        self._epoch.add(name, value.values, weights)
        return weighted_mean(value.values, weights, self.expected_weights.get(name))

    def _all_terms(self) -> list[tuple[str, Term]]:
        return list(self.terms.items())  # type: ignore[arg-type]  # the dictionary holds terms only

    def _term(self, name: str) -> Term:
        return dict(self._all_terms())[name]

    def _validated_terms(self) -> dict[str, Term]:
        return {name: term for name, term in self._all_terms() if term.validate}

    def _needs(self, terms: dict[str, Term], *, embeds: bool = False) -> Needs:
        return needs_of(terms, self.network, Needs(embeds=embeds, readout=self.own_loss_reads_readout))

    def _fraction_of_training(self) -> float:
        if self._trainer is None or not any(isinstance(term.weight, list) for _, term in self._all_terms()):
            return 0.0
        return min(1.0, self.trainer.global_step / max(1, self.num_steps()))
