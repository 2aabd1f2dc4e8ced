"""Checks settings when a command starts, so that users learn of mistakes within seconds and not after training."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning import Callback, LightningDataModule
from lightning.pytorch.callbacks import EarlyStopping

from lightning_xai.callbacks.base import AttributionSource
from lightning_xai.callbacks.constrained_stopping import ConstrainedStopping
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.callbacks.monitors import TRAIN, monitors_of, never_logged
from lightning_xai.chains.base import ChainCallback
from lightning_xai.data.module import TextDataModule
from lightning_xai.metrics.classification import LOWER_IS_BETTER
from lightning_xai.models.checkpoints.architecture_match import check_architecture
from lightning_xai.models.checkpoints.checkpoint import check_format, read_checkpoint, stored_encoder
from lightning_xai.models.checkpoints.class_order import check_class_order
from lightning_xai.models.checkpoints.loading import first_difference
from lightning_xai.models.pretrained.pretrained_weights import refuse_gaps
from lightning_xai.objectives.base import Objective
from lightning_xai.objectives.constrained import Constrained
from lightning_xai.objectives.constraint_checks import TASK, logged_name
from lightning_xai.objectives.evaluation import Evaluation
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.splits import VALIDATION, log_prefix


def check_checkpoint_settings(checkpoint: Any, *, weights_only: bool | None = None) -> None:
    """Raises ValueError if later commands would not find the checkpoints, or if checkpoints could run code.

    Args:
        checkpoint: arguments of ModelCheckpoint.
        weights_only: Lightning's argument. If it is False, a checkpoint can run code while it is loaded.

    Example:
        >>> from types import SimpleNamespace
        >>> check_checkpoint_settings(SimpleNamespace(dirpath=None, filename="best"))
    """
    if checkpoint.dirpath is not None:
        raise ValueError(f"checkpoint.dirpath is {checkpoint.dirpath!r}: leave it null, and set --runs_dir instead")
    if weights_only is False:
        raise ValueError("weights_only is false, which lets checkpoints run code: leave it null")
    if checkpoint.filename != "best":
        raise ValueError(f"checkpoint.filename is {checkpoint.filename!r}: leave it 'best', which other commands read")


def validation_directions(objective: Objective) -> dict[str, str]:
    """Returns name -> "max" or "min", the direction of better values, for each validation metric of an objective.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> directions = validation_directions(Supervised(random_bert()))
        >>> directions["val/accuracy"], directions["val/log_loss"]
        ('max', 'min')
    """
    prefix = log_prefix(VALIDATION)
    with warnings.catch_warnings():  # metrics warn that they have no data yet, but only their names are needed here
        warnings.simplefilter("ignore")
        known = [name for name in objective.val_metrics.compute() if name != "num_examples"]
    directions = {f"{prefix}/{name}": "min" if name in LOWER_IS_BETTER else "max" for name in known}
    directions |= {f"{prefix}/{name}": "min" for name in objective.more_validation_names}
    return directions | getattr(objective, "measured_directions", {})


def measured_in_fit(callbacks: Sequence[Callback]) -> list[str]:
    """Returns the prefixes under which a fit logs attribution metrics in validation.

    Example:
        >>> measured_in_fit([])
        []
    """
    evaluations = [c for c in callbacks if isinstance(c, AttributionEvaluation) and c.during_fit]
    methods = [name for callback in callbacks if isinstance(callback, AttributionSource) for name in callback.methods]
    return [f"{log_prefix(VALIDATION)}/{evaluation.preset}/{name}/" for evaluation in evaluations for name in methods]


def check_monitors(objective: Objective, callbacks: Sequence[Callback]) -> None:
    """Raises ValueError if a callback monitors a wrong value, or has a `mode` that prefers bad values.

    A value is wrong if no validation logs it (Preflight checks training values), if it is the log loss although the
    objective does not minimize this loss, or if the objective has `monitors` and the value is not one of them.

    Example:
        >>> from lightning.pytorch.callbacks import EarlyStopping
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> check_monitors(Supervised(random_bert()), [EarlyStopping("val/accuracy", mode="min")])
        Traceback (most recent call last):
        ValueError: EarlyStopping.mode is 'min', which prefers the worst val/accuracy: set it to 'max'
    """
    prefix = log_prefix(VALIDATION)
    losses = [f"{prefix}/{name}" for name in objective.more_validation_names]
    directions = validation_directions(objective)
    measured = measured_in_fit(callbacks)
    own: dict[str, str] = getattr(objective, "monitors", {})  # log name -> mode that the objective prescribes
    # if a run minimizes one loss alone, `check_stopping` is enough: other callbacks do not affect the bound it finds
    may_monitor_log_loss = getattr(objective, "own_weight", 1.0) > 0 or getattr(objective, "minimized_alone", None)
    check_stopping(objective, callbacks)
    for monitor in monitors_of(callbacks):
        if own and own.get(monitor.name) != monitor.mode:
            (tag, mode), *_ = own.items()
            raise ValueError(
                f"{monitor.owner}.monitor is {monitor.name} with mode {monitor.mode}: set monitor to {tag} and mode to "
                f"{mode}, because {type(objective).__name__} chooses its best checkpoint by this value"
            )
        if own:
            continue
        if monitor.name == f"{prefix}/log_loss" and not may_monitor_log_loss:
            reason = "it has a bound" if objective.task_weight else "task_weight is 0"
            choices = f"monitor one of {', '.join(losses)}" if losses else "set `validate: true` for a term to monitor"
            raise ValueError(
                f"{monitor.owner}.monitor is {monitor.name}, which is not minimized, because {reason}: {choices}"
            )
        if (better := directions.get(monitor.name)) is not None:
            if monitor.mode != better:
                raise ValueError(
                    f"{monitor.owner}.mode is {monitor.mode!r}, which prefers the worst {monitor.name}: set it to "
                    f"{better!r}"
                )
        elif monitor.name.startswith(TRAIN) or monitor.name == "loss":
            continue  # the callback Preflight checks these names later, when it computes the training losses
        elif monitor.is_required and not any(monitor.name.startswith(start) for start in measured):
            raise never_logged(monitor, [*directions, *(f"{start}..." for start in measured), f"{TRAIN}loss"])


def check_stopping(objective: Objective, callbacks: Sequence[Callback]) -> None:
    """Raises ValueError if a callback would stop the runs that find a bound by a value that they do not minimize.

    Example:
        >>> from lightning.pytorch.callbacks import EarlyStopping
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.constrained import Constrained
        >>> from lightning_xai.objectives.dual_ascent import Constraint
        >>> from lightning_xai.objectives.terms.input_gradient import InputGradient
        >>> objective = Constrained(random_bert(), {"igr": Constraint("auto")}, {"igr": InputGradient()})
        >>> check_stopping(objective, [EarlyStopping("val/log_loss")])
        Traceback (most recent call last):
        ValueError: EarlyStopping.monitor is val/log_loss, but runs that find the bound of igr minimize only val/igr: \
use ConstrainedStopping, which monitors val/igr in these runs
    """
    stopping = [c for c in callbacks if isinstance(c, EarlyStopping) and not isinstance(c, ConstrainedStopping)]
    for name in alone_in(objective):
        tag, in_training = logged_name(name), f"{TRAIN}{'classification' if name == TASK else name}"
        for callback in stopping:
            if callback.monitor not in (tag, f"{log_prefix(VALIDATION)}/loss", f"{TRAIN}loss", in_training):
                raise ValueError(
                    f"{type(callback).__name__}.monitor is {callback.monitor}, but runs that find the bound of {name} "
                    f"minimize only {tag}: use ConstrainedStopping, which monitors {tag} in these runs"
                )


def alone_in(objective: Objective) -> list[str]:
    """Returns the names of losses that a run of the objective, or runs that find its bounds, minimize alone.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> alone_in(Supervised(random_bert()))
        []
    """
    if not isinstance(objective, Constrained):
        return []
    return objective.auto_bounds if objective.only is None else [objective.only]


def check_tuning(callbacks: Sequence[Callback], data: LightningDataModule, *, tests_after_fit: bool) -> None:
    """Raises ValueError if a metric needs a tuned threshold, but the test after the fit does not tune thresholds.

    Nothing is raised if no test follows the fit, or if the callback Preflight will leave out such metrics.

    Example:
        >>> check_tuning([], LightningDataModule(), tests_after_fit=True)
    """
    if tests_after_fit and isinstance(data, TextDataModule) and not data.tune_on_validation:
        for callback in callbacks:
            if isinstance(callback, AttributionEvaluation):
                callback.refuse_tuned_metrics(callbacks)


def check_chains(callbacks: Sequence[Callback], *, tests_after_fit: bool) -> None:
    """Raises ValueError if several callbacks run chains (such as ROAR), or if the runs of a chain would not be tested.

    Example:
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> from lightning_xai.chains.fresh import FRESH
        >>> check_chains([FRESH({"gradient": Gradient()})], tests_after_fit=False)
        Traceback (most recent call last):
        ValueError: test_after_fit is false, but a chain compares the results of tests: set it to true
    """
    chains = [type(callback).__name__ for callback in callbacks if isinstance(callback, ChainCallback)]
    if len(chains) > 1:
        raise ValueError(f"{' and '.join(chains)} are chains of runs: run each chain with a command of its own")
    if chains and not tests_after_fit:
        raise ValueError("test_after_fit is false, but a chain compares the results of tests: set it to true")


def chain_in(callbacks: Sequence[Callback]) -> ChainCallback:
    """Returns the callback in `callbacks` that runs a chain.

    Raises:
        ValueError: no callback runs a chain.

    Example:
        >>> from lightning_xai.attributions.gradient import Gradient
        >>> from lightning_xai.chains.fresh import FRESH
        >>> chain_in([FRESH({"gradient": Gradient()})]).stages[1].name
        'gradient'
    """
    for callback in callbacks:
        if isinstance(callback, ChainCallback):
            return callback
    raise ValueError("--stage needs a chain: add ROAR or FRESH to trainer.callbacks, or leave --stage out")


def check_checkpoint(
    path: str, objective: Objective, class_names: list[str], data: LightningDataModule | None = None
) -> None:
    """Raises ValueError if a checkpoint does not fit the objective or the data.

    The checkpoint must have the same tokenizer as the data, and the same classes in the same order. If the checkpoint
    has a learned vocabulary, `data` adopts this vocabulary.

    Example:
        >>> import tempfile, torch
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> objective = Supervised(random_bert())
        >>> checkpoint = {"state_dict": objective.state_dict()}
        >>> objective.on_save_checkpoint(checkpoint)
        >>> with tempfile.NamedTemporaryFile(suffix=".ckpt") as file:
        ...     torch.save(checkpoint, file.name)
        ...     check_checkpoint(file.name, objective, ["negative", "positive"])
    """
    checkpoint = read_checkpoint(path)
    check_format(checkpoint, path)
    # classes are checked before weights: other classes often change the shapes of weights, too, and a message about
    # shapes would not tell the user why
    check_class_order(checkpoint.get("class_names"), class_names, path, objective.network_classes)
    if isinstance(data, TextDataModule):
        data.take_encoder(stored_encoder(checkpoint), path)
    difference = first_difference(checkpoint["state_dict"], objective.state_dict())
    if difference is not None:
        raise ValueError(
            f"{path} does not fit this configuration: the weight {difference.name} is {difference.shape} in the "
            f"checkpoint, but {difference.needed} here; give the config.yaml of the checkpoint's run, or evaluate.yaml"
        )
    check_architecture(checkpoint["network"], objective.network, path)


def resolve_checkpoint(
    run: RunFolder,
    ckpt_path: str | None,
    objective: Objective,
    class_names: list[str],
    data: LightningDataModule | None = None,
) -> str | None:
    """Returns the checkpoint file that `ckpt_path` names by "best", "last" or a path.

    If `ckpt_path` is None, returns the best checkpoint, or None if the run has no best checkpoint. If it is "initial",
    returns None: the network is used as the configuration builds it, even if some of its weights are random.

    Raises:
        ValueError: there is no such file; the checkpoint has another network than `objective`, or other classes or
            another tokenizer than the data; or there is no checkpoint, and some or all weights of the network are
            random.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> from lightning_xai.objectives.supervised import Supervised
        >>> print(resolve_checkpoint(RunFolder(Path("no/such/run")), "initial", Supervised(random_bert()), []))
        None
    """
    if ckpt_path == "initial":
        return None
    if ckpt_path in (None, "best", "last"):
        file = run.checkpoint("last" if ckpt_path == "last" else "best")
        if file is None and ckpt_path is not None:
            raise ValueError(f"{run.path} has no {ckpt_path} checkpoint: fit this run first, or give a checkpoint file")
    else:
        file = Path(str(ckpt_path))
        if not file.is_file():
            raise ValueError(f"there is no checkpoint {ckpt_path}: give a file, or 'best', 'last' or 'initial'")
    if file is None:
        remedy = "fit this network first, or explain it untrained with --ckpt_path initial"
        arguments = objective.network.init_args
        refuse_gaps(objective.network.weight_gaps, str(arguments.get("path")), remedy=remedy)
        is_pretrained = arguments.get("path") is not None and arguments.get("pretrained", True)
        if not is_pretrained and not isinstance(objective, Evaluation):
            raise ValueError(f"{run.path} has no checkpoint, and its network has no pretrained weights: {remedy}")
        return None
    check_checkpoint(str(file), objective, class_names, data)
    return str(file)
