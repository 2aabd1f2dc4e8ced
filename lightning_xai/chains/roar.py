"""Recursive ROAR: repeatedly erases the tokens with the highest scores, trains again, and measures performance."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast

import pandas as pd
import torch
from lightning import LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.random import random_scores
from lightning_xai.callbacks.base import network_of
from lightning_xai.chains.base import ChainCallback, scores_of
from lightning_xai.chains.erasure_pass import text_data_of
from lightning_xai.chains.roar_stages import (
    EVERYTHING,
    POSITIONS,
    RANDOM,
    AmountUnit,
    parse_stage_name,
    roar_stages,
    stage_name,
)
from lightning_xai.chains.stages import Chain, Stage
from lightning_xai.data.erasures import check_removal
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.classes.targets import gold_pairs
from lightning_xai.functional.scores.ranking import percent_of, top_mask
from lightning_xai.report.racu import write_racu_report
from lightning_xai.report.roar import roar_table
from lightning_xai.runs.experiment import report_dir
from lightning_xai.runs.files.whole_files import write_csv
from lightning_xai.runs.names import check_names
from lightning_xai.types import Batch

Metric = Literal["macro_f1", "accuracy", "auroc"]

EVIDENCE_ORDERS = {"evidence_first": 1, "evidence_last": -1}  # evidence is added to random scores with this sign
ONCE = "_once"  # suffix of a method's name if the root's network scores the tokens once, for all runs of the method
COLUMNS = ["seed", "method", "amount", "split", "metric", "value", "control", "amount_unit", "run"]


def num_erased(num_tokens: Tensor, amount: int, *, amount_unit: AmountUnit) -> Tensor:
    """Returns [B] long: the number of tokens to erase from each example, computed with integers only.

    Args:
        num_tokens: [B] number of tokens that may be erased, including those that are already erased.
        amount: how much to erase: a percentage of these tokens, rounded down to whole tokens, or a number of tokens.
        amount_unit: the unit of `amount`, "percentage" or "token".

    Raises:
        ValueError: a percentage is outside [0, 100].

    Example:
        >>> num_erased(torch.tensor([7, 90]), 70, amount_unit="percentage").tolist()
        [4, 63]
        >>> num_erased(torch.tensor([2, 90]), 3, amount_unit="token").tolist()
        [2, 3]
    """
    return num_tokens.clamp(max=amount) if amount_unit == "token" else percent_of(num_tokens, amount)


def extend_erasure(scores: Tensor, token_mask: Tensor, keep: Tensor, counts: Tensor) -> Tensor:
    """Erases tokens until each example has `counts` erased tokens. Returns a mask [B, T] bool, False at erased tokens.

    Tokens that are already erased stay erased and are included in `counts`. The other erased tokens are those with the
    highest scores. If scores are equal, the first token is erased, so that the result is the same on all machines.

    Args:
        scores: [B, T] attribution scores.
        token_mask: [B, T] bool, tokens that may be erased.
        keep: [B, T] bool, False at tokens of `token_mask` that are already erased.
        counts: [B] number of erased tokens of each example, including those that are already erased.

    Example:
        >>> scores, tokens = torch.tensor([[0.1, 0.4, 0.3, 0.2]]), torch.tensor([[True, True, True, True]])
        >>> keep = extend_erasure(scores, tokens, tokens, torch.tensor([1]))
        >>> keep.tolist()
        [[True, False, True, True]]
        >>> extend_erasure(-scores, tokens, keep, torch.tensor([2])).tolist()
        [[False, False, True, True]]
    """
    return ~top_mask(scores.masked_fill(~keep, torch.inf), token_mask, counts)


class ROAR(ChainCallback):
    """Trains one run for each attribution method and amount of erased tokens, and collects the results.

    The run with this callback is the root, in which nothing is erased. With the root's best checkpoint, every method
    scores the tokens of all splits for the gold class, and the tokens with the highest scores are erased. The next run
    trains on the remaining tokens, its best checkpoint scores them, and so on. Erased tokens stay erased and count
    toward the amounts erased later. The baseline "random" erases each example's tokens in random order. Finished runs
    are not trained again: the same command continues an interrupted chain.

    When all runs are finished, `roar.csv` is written to the root's folder, with the columns seed, method, amount,
    split, metric, value, control, amount_unit and run. All methods share the runs at 0 and 100 percent, whose results
    are repeated in the rows of each method. The curves and the RACU, over the seeds finished so far, are written to the
    experiment's folder `report`. The RACU is the area between the curves of "random" and of a method, divided by the
    largest possible area.

    Args:
        methods: name of a method, used in folders and tables -> attribution method. Tokens with the highest scores are
            erased first, so put Transformed with "absolute" around signed methods, as the authors do.
        percentages: amounts to erase, in ascending order, in percent of each example's explainable tokens. The
            resulting number of tokens is rounded down.
        amount_unit: "percentage" erases the amounts in `percentages`. "token" erases one more token in every run, up to
            `max_tokens`, and has no run that erases everything.
        max_tokens: largest number of erased tokens if `amount_unit` is "token".
        recursive: True if each run's network chooses the tokens that are erased in the next run. False if the root's
            network chooses the tokens for all runs (ROAR). "both" runs every method twice: "gradient" is recursive,
            "gradient_once" is not.
        control: whether to train controls. A control sees only which positions are erased, because the unknown token
            replaces all tokens that are not erased. If a control performs better than the run at 100 percent, the
            choice of the erased tokens leaks the label. The run at 100 percent is also the control at 0 and 100
            percent.
        bounds: whether to add two baselines that use the annotated evidence of the gold class: "evidence_first"
            erases the evidence first, as the best method would; "evidence_last" erases it last, as the worst method
            would. The order within the evidence and within the other tokens is random.
        metric: the metric in the printed tables; `roar.csv` has all metrics. Accuracy equals micro-F1, because the data
            are single-label.

    Raises:
        ValueError: an argument has a value that is not allowed. At setup: the data are multi-label, `bounds` is True
            but the data have no annotated evidence, both texts of a pair are explained, or `control` is True but the
            encoder has no unknown token.

    Example:
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> roar = ROAR({"gradient": Gradient()}, percentages=(20, 60))
        >>> [stage.name for stage in roar.stages]
        ['', 'all/100', 'random/020', 'random/060', 'gradient/020', 'gradient/060']
        >>> list(roar.erasures_by(roar.stages[4]))  # the run at 20 percent decides the erasures at 60
        ['gradient/060']

    Reference: Madsen et al. (2022), "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking
    Allegedly Important Tokens and Retraining", arXiv 2110.08412, Section 3; after Hooker et al. (2019).
    Differs: the authors draw the random orders of the whole data set from one generator; here each example has its own
    generator, so that its order does not depend on other examples. The authors have no control.
    """

    explained: ClassVar[str] = "gold"

    def __init__(
        self,
        methods: dict[str, AttributionMethod],
        percentages: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70, 80, 90),
        amount_unit: AmountUnit = "percentage",
        max_tokens: int = 10,
        recursive: bool | Literal["both"] = True,
        control: bool = False,
        bounds: bool = False,
        metric: Metric = "macro_f1",
    ) -> None:
        require_choices({"amount_unit": AmountUnit, "metric": Metric}, {"amount_unit": amount_unit, "metric": metric})
        check_names("methods", list(methods), reserved=(RANDOM, *EVIDENCE_ORDERS, EVERYTHING, "report"))
        if any(name.endswith((POSITIONS, ONCE)) for name in methods):
            raise ValueError(f"methods are {list(methods)}: choose names that do not end in {POSITIONS} or {ONCE}")
        if not percentages or not all(0 < a < b for a, b in zip(percentages, [*percentages[1:], 100], strict=True)):
            raise ValueError(f"percentages are {list(percentages)}: give ascending integers from 1 to 99")
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}: give at least 1 token")
        self.amounts = list(percentages) if amount_unit == "percentage" else list(range(1, max_tokens + 1))
        self.fixed_orders = [RANDOM, *EVIDENCE_ORDERS] if bounds else [RANDOM]  # orders that need no network
        self.recursive_methods = set(methods) if recursive else set()
        methods_once = {f"{name}{ONCE}": method for name, method in methods.items()} if recursive == "both" else {}
        stages = roar_stages(
            [*methods, *methods_once],
            self.amounts,
            amount_unit=amount_unit,
            control=control,
            recursive_methods=self.recursive_methods,
            fixed_orders=self.fixed_orders,
        )
        super().__init__(methods | methods_once, stages)
        self.amount_unit: AmountUnit = amount_unit
        self.control = control
        self.metric = metric

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        data = text_data_of(trainer)
        columns = data.columns("train")
        if self.fixed_orders != [RANDOM] and "rationales" not in columns:
            name = type(data.source).__name__
            raise ValueError(f"bounds is true, but {name} has no annotated evidence: set bounds to false")
        if "text_pair" in columns and getattr(data.encoder, "explain_pair", False):
            raise ValueError(
                "explain_pair is true, but ROAR erases only the main text of a pair: set explain_pair to false"
            )
        if self.control:
            check_removal("positions", data.encoder)

    def erasures_by(self, stage: Stage) -> dict[str, dict[str, Any]]:
        erasures: list[tuple[str, int, AmountUnit]] = []  # method, amount, unit of the amount
        if stage.name:
            method, amount, control = parse_stage_name(stage.name)
            if method in self.recursive_methods and not control:
                erasures = [(method, larger, self.amount_unit) for larger in self.amounts if larger > amount][:1]
        else:
            if self.amount_unit == "percentage":
                erasures.append((EVERYTHING, 100, "percentage"))
            for method in [*self.fixed_orders, *self.methods]:
                amounts = self.amounts[:1] if method in self.recursive_methods else self.amounts
                erasures += [(method, amount, self.amount_unit) for amount in amounts]
        return {
            stage_name(method, amount): {"method": method, "amount": amount, "amount_unit": unit, "run": stage.name}
            for method, amount, unit in erasures
        }

    def keep_masks(
        self, module: LightningModule, batch: Batch, split: str, keep: Tensor, erasures: dict[str, dict[str, Any]]
    ) -> dict[str, Tensor]:
        token_mask = batch.inputs.token_mask
        methods = {facts["method"].removesuffix(ONCE) for facts in erasures.values()}
        scores, masks = {}, {}
        for method in methods:
            with self.clock.timed(method):
                scores[method] = self._scores(module, method, batch, split)
        for name, facts in erasures.items():
            counts = num_erased(token_mask.sum(dim=1), facts["amount"], amount_unit=facts["amount_unit"])
            masks[name] = extend_erasure(scores[facts["method"].removesuffix(ONCE)], token_mask, keep, counts)
        return masks

    def report(self, chain: Chain) -> None:
        results = self.results(chain)
        write_csv(results, chain.root.roar_file)
        print(roar_table(results, self.metric))
        print(f"written: {chain.root.roar_file}\n")
        experiment = chain.root.experiment_dir
        print(write_racu_report([experiment], report_dir(experiment), metrics=[self.metric], events=chain.root.path))

    def results(self, chain: Chain) -> pd.DataFrame:
        """Returns the rows of `roar.csv`: the results of all finished runs."""
        parts = []
        for stage in chain.stages:
            scores = scores_of(chain, stage).assign(amount_unit=self.amount_unit)
            parts += [
                scores.assign(method=method, amount=amount, control=control)
                for method, amount, control in self._points(stage)
            ]
        order = {method: place for place, method in enumerate([*self.fixed_orders, *self.methods])}
        rows = pd.concat(parts)[COLUMNS]
        return rows.sort_values(
            ["control", "method", "amount", "split"],
            key=lambda column: column.map(order) if column.name == "method" else column,
            kind="stable",
        ).reset_index(drop=True)

    def _points(self, stage: Stage) -> list[tuple[str, int, bool]]:
        """Returns the points (method, amount, control) at which the ROAR curves show this stage's results."""
        methods = [*self.fixed_orders, *self.methods]
        if not stage.name:
            return [(method, 0, False) for method in methods]
        if not stage.name.startswith(f"{EVERYTHING}/"):
            return [parse_stage_name(stage.name)]
        # At 100 percent, all positions hold the same token, as in a control at 0 or 100 percent. So the results of the
        # stage at 100 percent are also used for these two controls.
        controls = sorted(self.methods) if self.control else []
        ends = [(method, amount, True) for method in controls for amount in (0, 100)]
        return [*((method, 100, False) for method in methods), *ends]

    def _scores(self, module: LightningModule, method: str, batch: Batch, split: str) -> Tensor:
        inputs = batch.inputs
        if method == EVERYTHING:
            return torch.zeros(inputs.token_mask.shape, device=inputs.device)
        if method in self.fixed_orders:
            targets = torch.zeros_like(batch.labels).unsqueeze(1)  # class 0, so that the order ignores labels
            drawn = random_scores(inputs, targets, seed=cast(int, module.run_seed))[:, 0]
            return drawn + (EVIDENCE_ORDERS[method] * 1e3 * _evidence(batch) if method in EVIDENCE_ORDERS else 0)
        method_of_split = self.methods[method].for_split(split)
        return method_of_split.attribute(network_of(module), inputs, batch.labels.unsqueeze(1)).scores[:, 0]


def _evidence(batch: Batch) -> Tensor:
    """Returns the annotated evidence [B, T] for the gold class of every example, in [0, 1]."""
    assert batch.rationale is not None
    gold = batch.rationale.target_mask & gold_pairs(batch.labels, batch.rationale.targets)
    return (batch.rationale.scores * gold.unsqueeze(-1)).sum(dim=1)
