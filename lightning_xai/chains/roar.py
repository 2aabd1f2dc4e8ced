"""Recursive ROAR: erase what a measure calls important, train again, and see whether the score falls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Literal

import pandas as pd
import torch
from lightning import LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.random import random_scores
from lightning_xai.chains.base import ChainCallback, scores_of, write_csv
from lightning_xai.chains.erasure_pass import explained_scores
from lightning_xai.chains.stages import Chain, Stage, check_names
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.ranking import percent_of, top_mask
from lightning_xai.functional.targets import gold_pairs
from lightning_xai.report.racu import write_report
from lightning_xai.report.roar import roar_table
from lightning_xai.runs.folder import report_dir
from lightning_xai.types import Batch

Metric = Literal["macro_f1", "accuracy", "auroc"]
Step = Literal["percentage", "token"]

BASELINE = "random"
BOUNDS = {"evidence_first": 1, "evidence_last": -1}  # sign of the annotated evidence
ALL = "all/100"
ONCE = "_once"  # ends the name of a measure that scores nothing anew beside one that does
COLUMNS = ["seed", "measure", "percentage", "split", "metric", "value", "control", "step", "run"]


def erased_counts(num_tokens: Tensor, amount: int, *, step: Step) -> Tensor:
    """Returns how many of `num_tokens` [B] are erased, long [B], by integer arithmetic.

    Args:
        num_tokens: tokens that may be erased, those erased already included.
        amount: percent from 0 to 100, rounded down to whole tokens, or a number of tokens.
        step: the unit of `amount`.

    Raises:
        ValueError: a percentage outside [0, 100].
    """
    if step == "token":
        return num_tokens.clamp(max=amount)
    return percent_of(num_tokens, amount)


def next_erasure(scores: Tensor, token_mask: Tensor, erased: Tensor, counts: Tensor) -> Tensor:
    """Returns [B, T] bool: `counts` [B] tokens of `token_mask`, those of `erased` first, then the highest scores.

    Tokens erased already stay erased and count. Of equal scores the first place is erased first, so that nothing
    depends on the machine.

    Args:
        scores: [B, T].
        token_mask: [B, T] bool, tokens that may be erased.
        erased: [B, T] bool, tokens of `token_mask` that are erased already.
    """
    return top_mask(scores.masked_fill(erased, torch.inf), token_mask, counts)


def stage_name(measure: str, amount: int, *, control: bool = False) -> str:
    """Returns the folder of a stage below the root's experiment."""
    return f"{measure}{'_positions' if control else ''}/{amount:03d}"


def roar_stages(
    measures: Sequence[str],
    amounts: Sequence[int],
    *,
    step: Step,
    control: bool,
    anew: Collection[str],
    fixed: Sequence[str] = (BASELINE,),
) -> list[Stage]:
    """Returns the runs of a chain: nothing erased, all erased, the `fixed` orders, then measure by measure.

    Every run of a measure in `anew` erases for the next one; the root does for all runs of the others.
    """
    erased = "{} %" if step == "percentage" else "{} tokens"
    stages = [Stage("", f"all measures, {erased.format(0)}", "root")]
    if step == "percentage":
        stages.append(Stage(ALL, "all measures, 100 %", BASELINE, ALL))
    for positions in (False, True) if control else (False,):
        for measure in measures if positions else [*fixed, *measures]:
            for before, amount in zip([0, *amounts], amounts, strict=False):
                name = stage_name(measure, amount, control=positions)
                title = f"{'positions of ' if positions else ''}{measure}, {erased.format(amount)}"
                stages.append(
                    Stage(
                        name,
                        title,
                        BASELINE if positions or measure in fixed else measure,
                        erasures=stage_name(measure, amount),
                        erasure="positions" if positions else "mask",
                        writer=stage_name(measure, before) if before and measure in anew else "",
                    )  # fmt: skip
                )
    return stages


class ROAR(ChainCallback):
    """Trains a run of its own for every measure and percentage of tokens erased, and gathers their scores.

    The run to which the callback is added is the root, with nothing erased. From its best checkpoint every measure
    scores the tokens of all splits for the gold class, and the highest are erased. A run is trained on that, its best
    checkpoint scores what is left, and so on. A token that is erased stays erased and counts. The baseline "random"
    erases by one draw an example. What a chain has finished is never repeated: the same command continues it.

    When every run is finished, the root's folder has `roar.csv`: seed, measure, percentage (or number of tokens),
    split, metric, value, control, step, run. The runs at 0 and 100 percent are rows of every measure. The experiment's
    folder `report` has RACU and the curves over all seeds that are there by then (see racu_report).

    Args:
        measures: attribution methods by the name that folders and tables show. Large scores are erased first, so wrap
            signed ones in Transformed with "absolute", as the authors do.
        percentages: of an example's explainable tokens, ascending, rounded down to whole tokens.
        step: "token" erases one token more in every run, up to `max_tokens`, and has no run at 100 percent.
        max_tokens: see `step`.
        recursive: whether every run scores anew; otherwise all erasures come from the root's scores (ROAR). "both" has
            every measure twice, "gradient" anew and "gradient_once" not.
        control: also train on the erasures' positions alone, all other words replaced by one: what such a run scores
            above the run at 100 percent is the label leaking through the choice of the tokens. Its own ends at 0 and
            100 percent are that run.
        bounds: also erase the annotated evidence of the gold class first ("evidence_first") and last, as the best and
            the worst measure would; tokens of one kind come by the random draw.
        metric: what the table at the end shows; `roar.csv` has all. Accuracy is the micro-F1 of single labels.

    Raises:
        ValueError: names, percentages or numbers that make no chain; at its start, multi-label data, `bounds`
            without annotated evidence, pairs of which both texts are explained, or a `control` whose encoder has no
            unknown token.

    Reference: Madsen et al. (2022), "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking
    Allegedly Important Tokens and Retraining", arXiv 2110.08412, Section 3; after Hooker et al. (2019).
    Differs: the authors draw the random order from one generator for the whole data set; here each example has its own
    draw, so it does not depend on the order of the examples. The control is ours.
    """

    explained: ClassVar[str] = "gold"

    def __init__(
        self,
        measures: dict[str, AttributionMethod],
        percentages: tuple[int, ...] = (10, 20, 30, 40, 50, 60, 70, 80, 90),
        step: Step = "percentage",
        max_tokens: int = 10,
        recursive: bool | Literal["both"] = True,
        control: bool = False,
        bounds: bool = False,
        metric: Metric = "macro_f1",
    ) -> None:
        require_choices({"step": Step, "metric": Metric}, {"step": step, "metric": metric})
        check_names("measures", list(measures), taken=(BASELINE, *BOUNDS, "all", "report"))
        if any(name.endswith(("_positions", ONCE)) for name in measures):
            raise ValueError(f"measures are {list(measures)}: ..._positions and ...{ONCE} are names that a chain gives")
        if not percentages or not all(0 < a < b for a, b in zip(percentages, [*percentages[1:], 100], strict=True)):
            raise ValueError(f"percentages are {list(percentages)}: give ascending integers from 1 to 99")
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}: give 1 or more")
        self.amounts = list(percentages) if step == "percentage" else list(range(1, max_tokens + 1))
        self.fixed = [BASELINE, *BOUNDS] if bounds else [BASELINE]
        self.anew = set(measures) if recursive else set()
        once = {f"{name}{ONCE}": method for name, method in measures.items()} if recursive == "both" else {}
        options = {"step": step, "control": control, "anew": self.anew, "fixed": self.fixed}
        super().__init__(measures | once, roar_stages([*measures, *once], self.amounts, **options))
        self.step: Step = step
        self.control = control
        self.metric = metric

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        columns, encoder = trainer.datamodule.rows["train"].column_names, trainer.datamodule.encoder
        if self.fixed != [BASELINE] and "rationales" not in columns:
            name = type(trainer.datamodule.source).__name__
            raise ValueError(f"bounds need annotated evidence, which {name} does not have: leave bounds out")
        if "text_pair" in columns and getattr(encoder, "explain_pair", False):
            raise ValueError("explain_pair is true, but ROAR erases the main text of a pair alone: set it to false")
        if self.control:
            trainer.datamodule.check_removal("positions")

    def erasures_by(self, stage: Stage) -> dict[str, dict[str, Any]]:
        if not stage.name:
            written = [("all", 100)] if self.step == "percentage" else []
            for measure in [*self.fixed, *self.methods]:
                written += [(measure, k) for k in (self.amounts[:1] if measure in self.anew else self.amounts)]
        else:
            measure, _, amount = stage.name.partition("/")
            larger = [k for k in self.amounts if k > int(amount)] if measure in self.anew else []
            written = [(measure, k) for k in larger[:1]]
        return {stage_name(m, k): {"method": m, self.step: k, "run": stage.name} for m, k in written}

    def erase(
        self, module: LightningModule, batch: Batch, split: str, already: Tensor, facts: dict[str, dict[str, Any]]
    ) -> dict[str, Tensor]:
        mask, erased = batch.inputs.token_mask, {}
        measures = {fact["method"].removesuffix(ONCE) for fact in facts.values()}
        scores = {measure: self._scores(module, measure, batch, split) for measure in measures}
        for name, fact in facts.items():
            step: Any = "percentage" if fact["method"] == "all" else self.step
            counts = erased_counts(mask.sum(dim=1), fact[self.step], step=step)
            erased[name] = next_erasure(scores[fact["method"].removesuffix(ONCE)], mask, already, counts)
        return erased

    def report(self, chain: Chain) -> None:
        results = self.results(chain)
        write_csv(results, chain.root.roar_file)
        print(roar_table(results, self.metric))
        print(f"written: {chain.root.roar_file}\n")
        experiment = chain.root.path.parent
        print(write_report([experiment], report_dir(experiment), metrics=[self.metric], events=chain.root.path))

    def results(self, chain: Chain) -> pd.DataFrame:
        """Returns the rows of `roar.csv` from the finished runs."""
        parts = []
        measures = [*self.fixed, *self.methods]
        controls = sorted({s.name.partition("/")[0].removesuffix("_positions") for s in chain.stages if _control(s)})
        for stage in chain.stages:
            measure, _, amount = stage.name.partition("/")
            rows = scores_of(chain, stage).assign(step=self.step)
            if _control(stage):
                shown = [(measure.removesuffix("_positions"), True, int(amount))]
            elif stage.name == ALL:
                shown = [(name, False, 100) for name in measures]
                shown += [(name, True, end) for name in controls for end in (0, 100)]
            else:
                shown = [(name, False, int(amount or 0)) for name in (measures if not stage.name else [measure])]
            parts += [rows.assign(measure=m, control=c, percentage=p) for m, c, p in shown]
        found = pd.concat(parts)[COLUMNS]
        order = {name: place for place, name in enumerate(measures)}
        return found.sort_values(
            ["control", "measure", "percentage", "split"],
            key=lambda column: column.map(order) if column.name == "measure" else column,
            kind="stable",
        ).reset_index(drop=True)

    def _scores(self, module: LightningModule, measure: str, batch: Batch, split: str) -> Tensor:
        inputs = batch.inputs
        if measure == "all":
            return torch.zeros(inputs.token_mask.shape, device=inputs.device)
        if measure in self.fixed:
            draws = torch.zeros_like(batch.labels).unsqueeze(1)  # of one class, so that no label enters
            drawn = random_scores(inputs, draws, seed=module.run_seed)[:, 0]
            return drawn + (BOUNDS[measure] * 1e3 * _evidence(batch) if measure in BOUNDS else 0)
        return explained_scores(module, self.methods[measure], batch, split)


def _evidence(batch: Batch) -> Tensor:
    """Returns the annotated evidence [B, T] of every example's gold class, in [0, 1]."""
    gold = batch.rationale.target_mask & gold_pairs(batch.labels, batch.rationale.targets)
    return (batch.rationale.scores * gold.unsqueeze(-1)).sum(dim=1)


def _control(stage: Stage) -> bool:
    return "_positions/" in stage.name
