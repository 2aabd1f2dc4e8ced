"""AML: a pretrained scorer gives token scores in one pass (pAML), or is first tuned on each text (fAML)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.classes.targets import TargetPolicy
from lightning_xai.functional.network.chunking import check_chunk_size, even_slices, rows_per_forward
from lightning_xai.functional.network.modes import frozen
from lightning_xai.functional.text.scorer_inputs import ScorerInputs
from lightning_xai.models.base import Classifier
from lightning_xai.models.scorer.dual_mask import masked_losses
from lightning_xai.models.scorer.scorer_checkpoint import TrainedScorer, load_scorer
from lightning_xai.models.scorer.scorer_tokenizer import TextRows
from lightning_xai.models.scorer.token_scorer import TokenScorer
from lightning_xai.models.scorer.tuned_scorer import row_logits, tuned_rows
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.types import Attribution, Batch, Passes, Selector, TextInputs

DECAY_STEPS = 20  # the learning rate falls linearly, and would reach 0 after this number of steps
# largest total size, in bytes, of the tuned weights in memory; each text has its own copy of the weights
_LEAF_BYTES = {"cpu": 2**28, "accelerator": 2**32}


def best_candidates(values: Tensor, *, higher_is_better: bool) -> Tensor:
    """Returns the column index [R] of the best of N candidates in each of R rows.

    NaN counts as the worst value. If several candidates are equally good, or all are NaN, the first is chosen.

    Args:
        values: [R, N], a metric's value for each candidate.
        higher_is_better: whether the largest value is the best.

    Example:
        >>> best_candidates(torch.tensor([[0.5, 0.7, 0.7], [torch.nan, 0.2, 0.1]]), higher_is_better=False).tolist()
        [0, 2]
    """
    signed = values if higher_is_better else -values
    signed = signed.nan_to_num(nan=-torch.inf).cpu()
    return (signed == signed.max(dim=1, keepdim=True).values).int().argmax(dim=1)  # the first of equal values


class AMLAttribution(AttributionMethod):
    """Scores tokens with a scorer, which is a network that was pretrained by an AML run to explain the classifier.

    Scores are in [0, 1]; special tokens score 0. If `num_steps` is 0 (pAML), one pass of the scorer gives the scores.
    Otherwise (fAML), a copy of the scorer is tuned on each text: AdamW minimizes the dual-mask loss, with the same loss
    weights as in pretraining. The scores before tuning and after each step are candidates, and `metric` chooses the
    best candidate, or the earliest of equally good ones. The chosen scores have an advantage under this metric. For a
    fair comparison, evaluate them with another metric, or only compare methods whose scores this metric chose.

    A scorer that was pretrained with `condition: probabilities` explains only the predicted class. The callback that
    computes attributions then needs the setting `targets: predicted`.

    Passes: passes of the explained network plus passes of the scorer. pAML takes 1 + K forward passes for K classes.
    fAML with n steps takes 1 + K ((n + 1) + 2 n + J (n + 1)) forward and 3 n K backward passes, where J is the number
    of erased texts that the metric evaluates for each candidate. Equal erased texts are evaluated once.

    Args:
        scorer: checkpoint or run folder of an AML run; None takes the scorer of the evaluated run's AML objective.
        num_steps: number of optimizer steps for each text; 0 for pAML, 10 in the paper.
        metric: the metric that chooses among the candidates; None if `num_steps` is 0.
        lr: learning rate of the first step; each step lowers the learning rate by a twentieth of `lr`. By default, `lr`
            is the learning rate of the pretraining.
        tuned: which weights of the scorer are tuned: "all" of them, "last:K" for its output layers and its last K
            encoder layers, or "lora:R" for LoRA updates of rank R to the matrices of its encoder.
        chunk_size: largest number of copies of the scorer that are tuned at the same time; None for as many as memory
            allows. Scores do not depend on `chunk_size`.

    Raises:
        ValueError: an argument has a value that is not allowed, only one of `num_steps` and `metric` is set, or the
            metric cannot choose scores. When scores are computed: the network is multi-label, there is no scorer, the
            scorer was pretrained for another network, or the scorer explains only the predicted class, but a target is
            another class.

    Example:
        >>> AMLAttribution("runs/aml/seed0").selected_on, AMLAttribution("runs/aml/seed0").has_sign
        ('', False)
        >>> AMLAttribution("runs/aml/seed0", num_steps=10)
        Traceback (most recent call last):
        ValueError: num_steps is 10 without a metric: set metric, which chooses among the steps

    Reference: Barkan et al. (2024), "LLM Explainability via Attributive Masking Learning", Section 3.
    Differs: some details are not from the paper, but from the authors' code: while a copy of the scorer is tuned, the
        embedding that tells the scorer the prediction stays fixed, dropout is off, and the learning rate falls over 20
        steps. In the authors' code, the candidates are the scores before each step, so the last step has no effect;
        here, the scores after the last step are also a candidate.
    """

    has_sign = False
    passes_at_most = True

    def __init__(
        self,
        scorer: str | None,
        num_steps: int = 0,
        metric: Selector | None = None,
        lr: float | None = None,
        tuned: str = "all",
        chunk_size: int | None = None,
    ) -> None:
        if not 0 <= num_steps <= DECAY_STEPS:
            raise ValueError(f"num_steps is {num_steps}: give a number from 0 to {DECAY_STEPS}")
        if num_steps and metric is None:
            raise ValueError(f"num_steps is {num_steps} without a metric: set metric, which chooses among the steps")
        if metric is not None:
            if not num_steps:
                raise ValueError("num_steps is 0, but a metric is given: remove metric, or raise num_steps above 0")
            metric.require_selection()
        if lr is not None and not lr > 0:
            raise ValueError(f"lr is {lr}: give a learning rate above 0, or null for the pretraining's learning rate")
        kind, _, number = tuned.partition(":")
        if tuned != "all" and not (kind in ("last", "lora") and number.isdigit() and int(number)):
            raise ValueError(f"tuned is {tuned!r}: give 'all', 'last:K' or 'lora:R', where K or R is a number above 0")
        check_chunk_size(chunk_size)
        self.scorer = scorer
        self.num_steps = num_steps
        self.metric = metric
        self.lr = lr
        self.tuned = tuned
        self.chunk_size = chunk_size
        self._source: Callable[[], TrainedScorer] | None = None  # returns the scorer; set by `give_scorer`
        self._trained: TrainedScorer | None = None  # loaded at the first use
        self.kept_steps: Counter[int] = Counter()  # tuning step -> how often the scores after this step were chosen
        # counts that are kept only if the scorer has its own tokenizer: "scored" is the number of tokens that get a
        # score; "nearest" is how many of them overlap no token of the scorer and get the score of the nearest one
        self.aligned_tokens: Counter[str] = Counter()
        self._texts: TextRows | None = None  # set by `give_texts`
        self._split: str | None = None  # split of the explained texts; `inputs.index` holds rows of this split
        self._checked: tuple[int, ...] = ()  # id of the last checked model, and version counters of its weights

    @property
    def selected_on(self) -> str:
        """Name of the metric that chooses among the candidate scores of fAML, or "validation:NAME" for pAML.

        The metric NAME chose the scorer's checkpoint on the validation split. "" for pAML before the scorer is loaded.
        """
        if self.metric is not None:
            return self.metric.name
        return f"validation:{self._trained.selected_on}" if self._trained is not None else ""

    @property
    def trained_weights(self) -> str:
        """Hash of the scorer's weights; "" if there is no scorer."""
        return "" if self.scorer is None and self._source is None else weights_hash(self._loaded().scorer)

    def settings(self) -> dict[str, Any]:
        settings = super().settings() | {"selected_on": self.selected_on}
        if self.metric is not None:
            settings["metric"] = self.metric.settings()
        return {name: value for name, value in settings.items() if name not in ("kept_steps", "aligned_tokens")}

    def check_use(self, policy: TargetPolicy, longest: int) -> None:
        trained = self._loaded()
        if trained.tokenizer is None:  # a tokenizer of the scorer's own cuts the texts
            trained.scorer.check_length(longest, "the longest text")
        if policy not in ("predicted", "topk") and trained.scorer.condition == "probabilities":
            raise ValueError(
                f"targets is {policy}, but the scorer explains only the predicted class: set `targets: predicted`, or "
                "pretrain a scorer with `condition: class`"
            )

    def for_split(self, split: str) -> AttributionMethod:
        self._split = split
        return self

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        trained = self._trained_for(model)
        scorer, scorer_inputs = trained.scorer, trained.scorer_inputs(inputs, self._split, self._texts)
        self.aligned_tokens.update(scorer_inputs.aligned_counts)
        with frozen(scorer), torch.no_grad():
            probs = model.probabilities(model(inputs).logits).to(scorer.z.dtype)
            y, columns = self._conditions(scorer, probs, targets)
            repeated = inputs.repeat_interleave(columns)  # R = B * columns texts, one for each explanation
            scorer_inputs = scorer_inputs.repeat_interleave(columns)
            scored = scorer_inputs.token_mask
            if not self.num_steps:
                scores = scorer_inputs.keep(scorer(scorer_inputs.inputs, y))
            else:
                scores = torch.zeros(scored.shape, dtype=scorer.z.dtype, device=scored.device)
                # a text without explainable tokens keeps scores of 0
                if len(rows := scored.any(dim=1).nonzero().flatten()):
                    tuned = self._tuned(model, trained, repeated[rows], scorer_inputs[rows], y[rows])
                    scores[rows] = tuned.to(scores.dtype)
        scores = scores.masked_fill(~scored, 0.0)
        return scores.view(len(inputs), columns, -1).expand(-1, targets.shape[1], -1)

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        n = self.num_steps
        if self.metric is None or not num_tokens:
            return Passes(forward=1 + num_targets, backward=0)
        erased = self.metric.passes(num_tokens, 1)
        return Passes(forward=1 + num_targets * ((n + 1) + 2 * n + erased * (n + 1)), backward=3 * n * num_targets)

    def _trained_for(self, model: Classifier) -> TrainedScorer:
        """Returns the scorer, with the device and dtype of `model`. Raises ValueError if it cannot explain `model`."""
        if model.multilabel:
            raise ValueError("AML explains single-label networks, not multi-label networks: choose another method")
        trained = self._loaded()
        version = (id(model), *(tensor._version for tensor in model.parameters()))
        if version != self._checked:
            trained.check_explains(model)
            self._checked = version
        trained.scorer.to(model.embedding_matrix)
        return trained

    def _loaded(self) -> TrainedScorer:
        """Returns the scorer, which is loaded or taken from the objective at the first use."""
        if self._trained is None:
            if self.scorer is None and self._source is None:
                raise ValueError("AMLAttribution has no scorer: set scorer to the folder of a run that trained one")
            self._trained = self._source() if self._source is not None else load_scorer(str(self.scorer))
        return self._trained

    @staticmethod
    def _conditions(scorer: TokenScorer, probs: Tensor, targets: Tensor) -> tuple[Tensor, int]:
        """Returns `y` [B * columns, C], the one-hot classes or probabilities that the scorer reads, and `columns`.

        `columns` is the number of explanations per text: K if the scorer explains any class, otherwise 1.

        Raises:
            ValueError: the scorer explains only the predicted class, but a target is another class.
        """
        if scorer.condition == "class":
            return torch.nn.functional.one_hot(targets.flatten(), probs.shape[1]).to(probs), targets.shape[1]
        other = targets != probs.argmax(dim=1, keepdim=True)
        if other.any():
            raise ValueError(
                f"class {int(targets[other][0])} is not the predicted class, but this scorer explains only the "
                "predicted class: set `targets: predicted`, or pretrain a scorer with `condition: class`"
            )
        return probs, 1

    @torch.enable_grad()
    def _tuned(
        self, model: Classifier, trained: TrainedScorer, inputs: TextInputs, scorer_inputs: ScorerInputs, y: Tensor
    ) -> Tensor:
        """Tunes a copy of the scorer on each of R texts, and returns the best candidate scores [R, T] of each text."""
        best = []
        for rows in even_slices(len(inputs), self._rows_at_once(trained.scorer, inputs)):
            part = inputs[rows].trim()
            trimmed = scorer_inputs[rows].trim(part.input_ids.shape[1])
            maps = self._candidates(model, trained, part, trimmed, y[rows])  # [r, N, T]
            maps = maps.masked_fill(~trimmed.token_mask.unsqueeze(1), 0.0)
            chosen = self._choice(model, part, y[rows], maps)
            self.kept_steps.update(chosen.tolist())
            kept = maps[torch.arange(len(part), device=maps.device), chosen.to(maps.device)]
            best.append(torch.nn.functional.pad(kept, (0, inputs.input_ids.shape[1] - kept.shape[1])))
        return torch.cat(best)

    def _rows_at_once(self, scorer: TokenScorer, inputs: TextInputs) -> int:
        device = inputs.device
        one = sum(leaf.numel() * leaf.element_size() for leaf in tuned_rows(scorer, self.tuned, 1).leaves)
        by_weights = max(_LEAF_BYTES["cpu" if device.type == "cpu" else "accelerator"] // max(one, 1), 1)
        # twice the tokens, because the explained network gets each text twice, with opposite masks
        by_tokens = rows_per_forward(None, 2 * inputs.input_ids.shape[1], device, differentiated=True)
        return min(by_weights, by_tokens, self.chunk_size or by_tokens)

    def _candidates(
        self, model: Classifier, trained: TrainedScorer, inputs: TextInputs, scorer_inputs: ScorerInputs, y: Tensor
    ) -> Tensor:
        """Returns the candidates [R, n + 1, T] of R texts: the scores before tuning and after each of n steps."""
        rows = tuned_rows(trained.scorer, self.tuned, len(inputs))
        lr = trained.lr if self.lr is None else self.lr
        optimizer = torch.optim.AdamW(rows.leaves, lr=lr, weight_decay=trained.weight_decay)
        maps = []
        for step in range(self.num_steps + 1):
            with torch.set_grad_enabled(step < self.num_steps):
                logits = row_logits(trained.scorer, scorer_inputs.inputs, y, rows)
            maps.append(scorer_inputs.keep(logits.detach()))
            if step == self.num_steps:
                break
            loss = masked_losses(model, inputs, y, logits, trained.loss, scorer_inputs)["loss"].sum()
            for leaf, gradient in zip(rows.leaves, torch.autograd.grad(loss, rows.leaves), strict=True):
                leaf.grad = gradient
            optimizer.param_groups[0]["lr"] = lr * (1 - step / DECAY_STEPS)
            optimizer.step()
        return torch.stack(maps, dim=1)

    def _choice(self, model: Classifier, inputs: TextInputs, y: Tensor, maps: Tensor) -> Tensor:
        """Returns the index [R] of each text's best candidate in `maps` [R, N, T], as rated by `metric`."""
        assert self.metric is not None
        targets = y.argmax(dim=1, keepdim=True).expand(-1, maps.shape[1])
        candidates = Attribution(maps, targets, torch.ones_like(targets, dtype=torch.bool), inputs.token_mask)
        values = self.metric.rate(candidates, Batch(inputs, targets[:, 0]), model)
        return best_candidates(values, higher_is_better=bool(self.metric.higher_is_better))
