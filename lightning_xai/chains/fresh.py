"""FRESH: an attribution method finds the most important tokens for one network; another network sees only these."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal

import pandas as pd
import torch
from lightning import LightningModule, Trainer
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod, explaining
from lightning_xai.callbacks.base import network_of
from lightning_xai.chains.base import ChainCallback, scores_of
from lightning_xai.chains.erasure_pass import text_data_of
from lightning_xai.chains.stages import ROOT, Chain, Stage
from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.scores.ranking import percent_of, top_mask
from lightning_xai.report.fresh import fresh_table
from lightning_xai.runs.experiment import runs_of
from lightning_xai.runs.files.whole_files import write_csv
from lightning_xai.runs.names import check_names
from lightning_xai.types import Batch

Metric = Literal["macro_f1", "accuracy", "auroc"]
Selection = Literal["top", "contiguous"]

FULL_TEXT = "full text"  # value of the column "method" in the rows with the extractor's results
COLUMNS = ["seed", "method", "split", "metric", "value", "run"]


def select_rationale(scores: Tensor, mask: Tensor, counts: Tensor, *, selection: Selection = "top") -> Tensor:
    """Returns the rationales [B, T] bool: `counts` tokens of `mask` in each example, or all if `mask` has fewer.

    If several tokens have the same score, or several windows have the same sum, the first token or window is taken.

    Args:
        scores: [B, T] attribution scores.
        mask: [B, T] bool, tokens that may be chosen.
        counts: [B] number of tokens in each rationale.
        selection: "top" takes the tokens with the highest scores. "contiguous" takes the window of neighboring tokens
            with the largest sum of scores; tokens outside `mask` are skipped and do not separate neighbors.

    Example:
        >>> scores, mask = torch.tensor([[0.9, 0.0, 0.5, 0.6, 0.1]]), torch.ones(1, 5) > 0
        >>> select_rationale(scores, mask, torch.tensor([2])).long().tolist()
        [[1, 0, 0, 1, 0]]
        >>> select_rationale(scores, mask, torch.tensor([2]), selection="contiguous").long().tolist()
        [[0, 0, 1, 1, 0]]
    """
    if selection == "top":
        return top_mask(scores, mask, counts)
    totals = mask.sum(dim=1, keepdim=True)
    counts = torch.minimum(counts.unsqueeze(1), totals)  # [B, 1]
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)  # tokens of `mask` come first, in order
    compact = scores.masked_fill(~mask, 0.0).double().gather(1, order)
    sums = torch.cat([torch.zeros_like(compact[:, :1]), compact.cumsum(dim=1)], dim=1)  # [B, T + 1]
    starts = torch.arange(sums.shape[1], device=scores.device).expand_as(sums)
    ends = (starts + counts).clamp(max=scores.shape[1])
    windows = sums.gather(1, ends) - sums
    best = top_mask(windows, starts + counts <= totals, torch.ones_like(counts[:, 0]))
    begin = best.to(torch.uint8).argmax(dim=1, keepdim=True)
    places = (mask.cumsum(dim=1) - 1).masked_fill(~mask, -1)
    return mask & (places >= begin) & (places < begin + counts)


def fresh_stages(methods: Sequence[str], classifier: str | None) -> list[Stage]:
    """Returns the stages of a chain: the extractor, then one classifier for the rationales of each method.

    Args:
        methods: names of attribution methods.
        classifier: configuration file whose settings override the command's settings when classifiers are trained. If
            None, the classifiers are trained with the settings of the extractor.

    Example:
        >>> [(stage.name, stage.title) for stage in fresh_stages(["gradient"], None)]
        [('', 'extractor, full text'), ('gradient', 'rationales of gradient')]
    """
    return [
        Stage("", "extractor, full text", "extractor"),
        *(
            Stage(name, f"rationales of {name}", "classifier", name, removal="delete", config=classifier)
            for name in methods
        ),
    ]


class FRESH(ChainCallback):
    """For each method, trains a classifier on the rationales, and compares it with a classifier that sees full texts.

    The run with this callback trains the classifier of full texts, called the extractor, with any objective. The
    extractor's best checkpoint predicts a class for every example of all splits, including test sets of other domains.
    Each method scores the tokens for the predicted class, so the labels do not influence the rationales. The tokens
    outside the rationale are deleted, and a new classifier is trained and tested on the remaining tokens. Finished runs
    are never repeated; the same command continues an interrupted chain.

    When all runs are finished, `fresh.csv` is written to the extractor's folder, with the columns seed, method ("full
    text" for the extractor), split, metric, value and run. A table of means over the seeds finished so far is printed.

    Args:
        methods: name of a method, used in folders and tables -> attribution method.
        ratio: length of a rationale as a fraction of the explainable tokens, rounded up to whole tokens.
        split_ratios: name of a split -> the ratio that replaces `ratio` in this split.
        selection: "top" takes the tokens with the highest scores; "contiguous" takes the window of neighboring tokens
            with the largest sum of scores.
        classifier: configuration file whose settings override the command's settings when classifiers are trained; it
            must not set trainer.callbacks. If None, the classifiers are trained with the settings of the extractor.
        metric: the metric in the printed table; `fresh.csv` has all metrics.

    Raises:
        ValueError: `methods` is empty or has an invalid name, a ratio is outside (0, 1], or `selection` or `metric` is
            unknown. At setup: the data are multi-label, or `split_ratios` names an unknown split.

    Example:
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> fresh = FRESH({"gradient": Gradient()}, ratio=0.1)
        >>> [stage.name for stage in fresh.stages]
        ['', 'gradient']
        >>> fresh.erasures_by(fresh.stages[0])["gradient"]["ratio"]
        0.1

    Reference: Jain et al. (2020), "Learning to Faithfully Rationalize by Construction", arXiv 2005.00115, Section 3; as
    used by Li et al. (2023), "Towards Faithful Explanations for Text Classification with Robustness Improvement and
    Explanation Guided Training", arXiv 2312.17591, Section 4.3.
    Differs: the published code scores tokens in train mode, with dropout; here the extractor is in eval mode.
    """

    explained: ClassVar[str] = "predicted"

    def __init__(
        self,
        methods: dict[str, AttributionMethod],
        ratio: float = 0.2,
        split_ratios: dict[str, float] | None = None,
        selection: Selection = "top",
        classifier: str | None = None,
        metric: Metric = "macro_f1",
    ) -> None:
        require_choices({"selection": Selection, "metric": Metric}, {"selection": selection, "metric": metric})
        check_names("methods", list(methods), reserved=(FULL_TEXT, "report", ROOT))
        ratios = {"ratio": ratio, **{f"split_ratios.{name}": value for name, value in (split_ratios or {}).items()}}
        for name, value in ratios.items():
            if not 0 < value <= 1:
                raise ValueError(f"{name} is {value}: give a fraction of the tokens, above 0 and at most 1")
        super().__init__(methods, fresh_stages(list(methods), classifier))
        self.ratio = ratio
        self.split_ratios = split_ratios or {}
        self.selection: Selection = selection
        self.metric = metric

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        splits = text_data_of(trainer).split_names
        for unknown in sorted(set(self.split_ratios) - set(splits)):
            raise ValueError(f"split_ratios has the unknown split {unknown!r}: choose from {', '.join(splits)}")

    def erasures_by(self, stage: Stage) -> dict[str, dict[str, Any]]:
        settings = {"ratio": self.ratio, "split_ratios": self.split_ratios, "selection": self.selection}
        return {} if stage.name else {name: {"method": name, **settings} for name in self.methods}

    def keep_masks(
        self, module: LightningModule, batch: Batch, split: str, keep: Tensor, erasures: dict[str, dict[str, Any]]
    ) -> dict[str, Tensor]:
        network, inputs = network_of(module), batch.inputs
        with explaining(network, inputs.device.type):
            predicted = network.predict(inputs).argmax(dim=1, keepdim=True)  # [B, 1]
        # an exact fraction, because 100 * 0.07 is a little above 7 in floating point and would be rounded up to 8
        percentage = str(100 * Fraction(str(self.split_ratios.get(split, self.ratio))))
        counts = percent_of(inputs.token_mask.sum(dim=1), percentage, rounding="ceil")
        masks = {}
        for name in erasures:
            with self.clock.timed(name):
                scores = self.methods[name].for_split(split).attribute(network, inputs, predicted).scores[:, 0]
            rationale = select_rationale(scores, inputs.token_mask, counts, selection=self.selection)
            masks[name] = rationale | ~inputs.token_mask
        return masks

    def report(self, chain: Chain) -> None:
        write_csv(self.results(chain), chain.root.fresh_file)
        files = [run.fresh_file for run in runs_of(chain.root.experiment_dir)]
        seeds = [pd.read_csv(file) for file in files if file.exists()]
        print(fresh_table(pd.concat(seeds, ignore_index=True), self.metric))
        print(f"written: {chain.root.fresh_file}")

    def results(self, chain: Chain) -> pd.DataFrame:
        """Returns the rows of `fresh.csv`: the results of all finished runs."""
        parts = [scores_of(chain, stage).assign(method=stage.name or FULL_TEXT) for stage in chain.stages]
        return pd.concat(parts, ignore_index=True)[COLUMNS]
