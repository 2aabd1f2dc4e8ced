"""The laws: properties that every objective must have. `check_objective` checks them for objectives of any package."""

from __future__ import annotations

import copy
import functools
import io
import math
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from lightning import Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from lightning_xai.functional.laws import random_texts, require, with_padding
from lightning_xai.functional.network.untouched import random_states_kept
from lightning_xai.functional.own_parts import require_maker, require_object, require_type
from lightning_xai.models.base import Classifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.models.tiny import TINY_BERT, with_large_weights
from lightning_xai.objectives.base import Objective
from lightning_xai.runs.progress import quiet
from lightning_xai.types import Attribution, Batch

PLANTED = 5  # a text has the label c if its token at position 1 or 2 has the id PLANTED + c
NUM_CLASSES = 5
MULTILABEL: dict[str, Any] = {"num_classes": NUM_CLASSES, "multilabel": True}

MakeObjective = Callable[[Classifier], Objective]


def check_objective(make: MakeObjective, *, multilabel: bool = True) -> None:
    """Checks an objective against the laws: properties that all objectives of this package have.

    Args:
        make: function that builds the objective for a network: the objective's class, or, for example,
            `lambda network: MyObjective(network, weight=0.5)`. The networks are tiny PLM-CAs.
        multilabel: whether the networks and texts for the checks are multi-label.

    Raises:
        ValueError: a law is broken; the message names the law and the remedy.

    Example:
        >>> class Mean(Objective):
        ...     def losses(self, batch):
        ...         return {"loss": self.network(batch.inputs).logits.detach().mean()}
        >>> check_objective(Mean)
        Traceback (most recent call last):
        ValueError: Mean: the loss has no gradient for the first layer: do not detach the logits
    """
    require_maker(make, Objective, "network")
    silent = redirect_stdout(io.StringIO())  # hides the lines that a fit prints
    with silent, quiet(), warnings.catch_warnings(), random_states_kept(), _environment_kept():
        warnings.simplefilter("ignore")
        for law in LAWS:
            law(make, multilabel=multilabel)


def planted_batch(seed: int = 0, *, num_examples: int = 6, num_classes: int = 3, multilabel: bool = False) -> Batch:
    """Returns random texts, each with a token that determines its label. This token is the rationale.

    Example:
        >>> planted_batch(num_examples=2).labels.shape
        torch.Size([2])
    """
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(5, 10, (num_examples,), generator=generator).tolist()
    inputs = random_texts(lengths, seed=seed, pad_to=10)
    labels = torch.randint(0, num_classes, (num_examples,), generator=generator)
    places = torch.randint(1, 3, (num_examples,), generator=generator)
    rows = torch.arange(num_examples)
    ids = inputs.input_ids.clone()
    planted = inputs.token_mask & (ids < PLANTED + num_classes)
    ids[planted] = PLANTED + num_classes
    ids[rows, places] = PLANTED + labels
    inputs = type(inputs)(**(vars(inputs) | {"input_ids": ids, "index": rows + seed * num_examples}))
    scores = torch.zeros(num_examples, 1, 10)
    scores[rows, 0, places] = 1.0
    targets = labels.unsqueeze(1)
    rationale = Attribution(scores, targets, torch.ones_like(targets, dtype=torch.bool), inputs.token_mask)
    if multilabel:
        labels = torch.nn.functional.one_hot(labels, num_classes).float()
    return Batch(inputs, labels, rationale)


class BatchDataset(Dataset[Batch]):
    """A data set whose items are the batches of a list.

    Example:
        >>> len(BatchDataset([planted_batch()]))
        1
    """

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, position: int) -> Batch:
        return self.batches[position]


def loader(num_batches: int = 4, **arguments: Any) -> DataLoader[Batch]:
    """Returns a loader of planted batches with the seeds 0, 1, ...

    Example:
        >>> len(loader(2))
        2
    """
    return DataLoader(BatchDataset([planted_batch(seed, **arguments) for seed in range(num_batches)]), batch_size=None)


def quiet_trainer(folder: str | Path, **arguments: Any) -> Trainer:
    """Returns a trainer on the CPU that by default logs nothing and writes no checkpoints.

    Example:
        >>> quiet_trainer("runs", max_epochs=1).max_epochs
        1
    """
    defaults: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False}
    defaults |= {"enable_model_summary": False, "enable_checkpointing": False, "num_sanity_val_steps": 0}
    return Trainer(default_root_dir=folder, **(defaults | arguments))


def tiny_plm_ca(num_classes: int = 5, *, multilabel: bool = True, dropout: float = 0.1) -> PLMCA:
    """Returns a tiny PLM-CA, which every objective of the package can train.

    Example:
        >>> tiny_plm_ca(3, multilabel=False).num_classes
        3
    """
    return copy.deepcopy(_tiny_plm_ca(num_classes, multilabel, dropout))


@functools.cache
def _tiny_plm_ca(num_classes: int, multilabel: bool, dropout: float) -> PLMCA:
    """Returns the network that `tiny_plm_ca` copies. It is built only once, since copying it takes less time."""
    sizes: dict[str, Any] = {"config": TINY_BERT, "segment_length": 8, "dropout": dropout}
    with torch.inference_mode(False):
        return with_large_weights(lambda: PLMCA(num_classes=num_classes, multilabel=multilabel, **sizes))


def loss_reaches_the_encoder(make: MakeObjective, *, multilabel: bool = True) -> None:
    """All losses are finite scalars, and the gradient of "loss" with respect to the first layer is not 0."""
    objective = _ready(make, multilabel)
    losses, name = objective.losses(planted_batch(**_kind(multilabel))), type(objective).__name__
    require_type(losses, dict, f"{name}.losses", 'return {"loss": the loss to be minimized}')
    require(
        "loss" in losses,
        f"{name}: `losses` has only {', '.join(losses)}",
        'return the loss to be minimized under the key "loss"',
    )
    for key, value in losses.items():
        scalar = isinstance(value, Tensor) and value.dim() == 0
        fits, shown = scalar and bool(value.isfinite()), value.detach() if isinstance(value, Tensor) else repr(value)
        require(fits, f"{name}: {key} is {shown}", "return finite scalars as tensors, such as means over a batch")
    weight = objective.network.encoder_layers()[0].value.weight
    rule, remedy = f"{name}: the loss has no gradient for the first layer", "do not detach the logits"
    require(losses["loss"].requires_grad, rule, remedy)
    (gradient,) = torch.autograd.grad(losses["loss"], weight, allow_unused=True)
    require(gradient is not None and bool(gradient.abs().max() > 0), rule, remedy)


def losses_leave_the_network_as_it_was(make: MakeObjective, *, multilabel: bool = True) -> None:
    """`losses` leaves weights, modes, requires_grad flags and gradients as they were."""
    objective = _ready(make, multilabel)
    next(objective.network.children()).eval()
    next(objective.parameters()).requires_grad_(False)
    modes = [module.training for module in objective.modules()]
    flags = [parameter.requires_grad for parameter in objective.parameters()]
    weights = [parameter.clone() for parameter in objective.parameters()]
    objective.losses(planted_batch(**_kind(multilabel)))
    kept = {
        "train and eval modes": [module.training for module in objective.modules()] == modes,
        "requires_grad flags": [parameter.requires_grad for parameter in objective.parameters()] == flags,
        "gradients": all(parameter.grad is None for parameter in objective.parameters()),
        "weights": all(torch.equal(a, b) for a, b in zip(weights, objective.parameters(), strict=True)),
    }
    changed = ", ".join(name for name, same in kept.items() if not same)
    rule = f"{type(objective).__name__}: after `losses`, {changed} are not as before"
    require(not changed, rule, "use torch.autograd.grad in inner loops, and restore what `losses` changes")


def losses_draw_no_numbers_in_eval_mode(make: MakeObjective, *, multilabel: bool = True) -> None:
    """In eval mode, `losses` draws no numbers from torch's global random generator."""
    objective = _ready(make, multilabel).eval()
    before = torch.get_rng_state()
    objective.losses(planted_batch(**_kind(multilabel)))
    rule = f"{type(objective).__name__}: in eval mode, `losses` draws from torch's global random generator"
    require(torch.equal(torch.get_rng_state(), before), rule, "use a torch.Generator, seeded by `step_seed`")


def loss_is_a_mean_over_examples(make: MakeObjective, *, multilabel: bool = True) -> None:
    """If `independent_of_batch` is True, padding and a second copy of each example do not change the loss.

    The losses are computed in eval mode, without dropout.
    """
    batch = planted_batch(**_kind(multilabel))
    name, independent, loss = _loss(make, batch, multilabel)
    if not independent:
        return
    twice = batch[[*range(len(batch))] * 2]
    says = "set `independent_of_batch` to False if the loss depends on the batch by definition, or draws numbers for it"
    for rule, remedy, other in (
        ("padding changes the loss", "use only tokens where attention_mask is True", with_padding(batch, 3)),
        ("if a batch holds every example twice, the loss changes", "return a mean over the examples, not a sum", twice),
    ):
        _, _, changed = _loss(make, other, multilabel)
        same = math.isclose(loss, changed, rel_tol=1e-3, abs_tol=1e-6)
        require(same, f"{name}: {rule} from {loss:.6g} to {changed:.6g}", f"{remedy}, or {says}")


def fit_changes_the_weights(make: MakeObjective, *, multilabel: bool = True) -> None:
    """A fit with bfloat16 and validation changes the weights. It logs "loss" and "val/macro_f1"."""
    objective = make(tiny_plm_ca(multilabel=multilabel))
    options: dict[str, Any] = {"max_epochs": 1, "precision": "bf16-mixed"}
    if objective.automatic_optimization:  # with manual optimization, Lightning refuses these options
        options |= {"gradient_clip_val": 1.0, "accumulate_grad_batches": 2}
    objective.setup("fit")  # first, because it may copy a teacher's weights, which must not count as a change
    before = {name: value.clone() for name, value in objective.network.named_parameters()}
    with tempfile.TemporaryDirectory() as folder:
        trainer = quiet_trainer(folder, **options)
        trainer.fit(objective, loader(4, **_kind(multilabel)), loader(1, **_kind(multilabel)))
    name, logged = type(objective).__name__, trainer.callback_metrics
    reports = "loss" in logged and bool(logged["loss"].isfinite()) and "val/macro_f1" in logged
    require(reports, f"{name}: a fit logs no loss or no val/macro_f1", "in each hook that you define, call super()")
    changed = any(not torch.equal(before[key], value) for key, value in objective.network.named_parameters())
    require(changed, f"{name}: a fit changes no weight", "minimize a loss that depends on the network")


def resumed_fit_ends_equal(make: MakeObjective, *, multilabel: bool = True) -> None:
    """If a run is resumed after an epoch, its final weights are the same as those of an uninterrupted run."""

    def fit(folder: Path, **arguments: Any) -> dict[str, Any]:
        seed_everything(5, verbose=False)
        objective = make(tiny_plm_ca(multilabel=multilabel))
        saving = ModelCheckpoint(folder, "{epoch}", save_top_k=-1)
        trainer = quiet_trainer(folder, max_epochs=2, enable_checkpointing=True, callbacks=[saving])
        trainer.fit(
            objective, loader(2, **_kind(multilabel)), loader(1, **_kind(multilabel)), weights_only=True, **arguments
        )
        return {"": type(objective).__name__, **objective.state_dict()}

    with tempfile.TemporaryDirectory() as folder:
        whole = fit(Path(folder, "whole"))
        resumed = fit(Path(folder, "resumed"), ckpt_path=Path(folder, "whole", "epoch=0.ckpt"))
    name = whole.pop("")
    same = all(torch.equal(whole[key], resumed[key]) for key in whole)
    remedy = "seed random numbers by `step_seed`, and keep all other state in buffers, which checkpoints contain"
    require(same, f"{name}: a resumed fit ends with other weights than an uninterrupted one", remedy)


LAWS = (
    loss_reaches_the_encoder,
    losses_leave_the_network_as_it_was,
    losses_draw_no_numbers_in_eval_mode,
    loss_is_a_mean_over_examples,
    fit_changes_the_weights,
    resumed_fit_ends_equal,
)


def _kind(multilabel: bool) -> dict[str, Any]:
    return {"num_classes": NUM_CLASSES, "multilabel": multilabel}


def _ready(make: MakeObjective, multilabel: bool) -> Objective:
    objective = make(tiny_plm_ca(multilabel=multilabel))
    require_object(objective, Objective)
    objective.setup("fit")
    return objective


def _loss(make: MakeObjective, batch: Batch, multilabel: bool) -> tuple[str, bool, float]:
    """Builds an objective; returns its class name, `independent_of_batch`, and its loss on the batch in eval mode."""
    torch.manual_seed(3)  # so that each objective has the same random weights
    objective = _ready(make, multilabel).eval()
    return type(objective).__name__, objective.independent_of_batch, float(objective.losses(batch)["loss"].detach())


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Restores the environment variables at the end of the context, since seed_everything sets some of them."""
    before = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
