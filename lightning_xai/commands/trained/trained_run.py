"""Loads a trained network with its encoder and its run, and builds attribution methods by name."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch

from lightning_xai.attributions.base import SIGNED_POOLINGS, AttributionMethod
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.commands.trained.devices import usable_device
from lightning_xai.commands.trained.explainer import Explainer, trained_encoder
from lightning_xai.data.base import Encoder
from lightning_xai.functional.model_files.model_folders import refuse_missing
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import TrainedNetwork, checkpoint_hash, checkpoint_path, load_trained
from lightning_xai.models.checkpoints.released import is_released
from lightning_xai.runs.class_paths import imported_class
from lightning_xai.runs.folder import RunFolder

# one method or several, as objects or as names of classes such as "ALTI,Random"
Methods = str | AttributionMethod | Sequence[str | AttributionMethod] | None


@dataclass(frozen=True)
class TrainedRun:
    """A trained network, the encoder with which it was trained, and the run that trained it.

    Attributes:
        path: run folder, checkpoint, Hugging Face folder or hub id from which the network was loaded.
        run: the run; None if the network does not come from a run.
        trained: the network and the names of its classes.
        encoder: the encoder, which tokenizes texts as they were tokenized in training.
        checkpoint: hash of the file with the weights, for the results table; "" if it was not requested.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> trained = TrainedNetwork(random_bert(), ["bad", "good"])
        >>> TrainedRun("runs/tm/seed0", None, trained, VocabularyEncoder(words=15)).explainer(None).methods.keys()
        dict_keys(['IntegratedGradients'])
    """

    path: str
    run: RunFolder | None
    trained: TrainedNetwork
    encoder: Encoder
    checkpoint: str = ""

    @property
    def name(self) -> tuple[str, int]:
        """The experiment and the seed of the run, for the results table; `path` and 0 if there is no run."""
        if self.run is None:
            return self.path, 0
        number = self.run.path.name.removeprefix("seed")
        return self.run.experiment_dir.name, int(number) if number.isdecimal() else 0

    def explainer(
        self, methods: Methods, *, num_classes: int = 3, text_pair: str | Sequence[str] | None = None
    ) -> Explainer:
        """Returns an Explainer, which predicts and explains texts with the network.

        Raises:
            ValueError: a method's name is unknown, or the network reads pairs and `text_pair` is None.
        """
        if text_pair is None and getattr(self.trained.network, "paired", False):
            raise ValueError(
                f"the network of {self.path} reads pairs of texts: give the second text with --text_pair, or in "
                "Python with text_pair="
            )
        return Explainer(
            self.trained,
            self.encoder,
            chosen_methods(methods, signed=True),
            num_classes=num_classes,
            text_pair=text_pair,
        )


def run_and_inputs(path: str) -> tuple[RunFolder | None, dict[str, Path]]:
    """Returns the run at `path`, and a dictionary of the run's files that a command will read: name -> path.

    Returns (None, {}) if `path` is a model without a run, such as a Hugging Face folder or hub id.

    Raises:
        ValueError: `path` exists, but is neither the folder of a model nor part of a fitted run with its config.yaml;
            or `path` does not exist and is not a hub id.

    Example:
        >>> run_and_inputs("google-bert/bert-base-uncased")
        (None, {})
    """
    file = Path(path)
    run = RunFolder.of_checkpoint(file) if file.is_file() else RunFolder(file)
    checkpoint = checkpoint_path(path)
    if checkpoint is not None and run.config_file.is_file():
        return run, {"ckpt": checkpoint, "configuration": run.config_file}
    refuse_missing(path, "the folder of a fitted run, a Hugging Face folder or a hub id")
    is_model = any((file / name).is_file() for name in ("config.json", "adapter_config.json")) or is_released(path)
    if file.is_file() or file.is_dir() and not is_model:
        raise ValueError(
            f"{path} has no checkpoint or no config.yaml: give the folder of a fitted run or a Hugging Face folder"
        )
    return None, {}


def load_trained_run(
    path: str, *, device: str = "cpu", trust_remote_code: bool = False, with_hash: bool = False
) -> TrainedRun:
    """Loads a trained network, and the encoder with which it was trained.

    Args:
        path: folder of a run, whose best checkpoint is used; a checkpoint in such a folder; or a Hugging Face folder
            or hub id with a classification head.
        device: device that runs the network, such as "cpu" or "cuda".
        trust_remote_code: whether Python code in the model's folder may run. If the network was trained with such code,
            this must be True.
        with_hash: whether to compute the hash of the weights, for tables of results.

    Raises:
        ValueError: there is no trained network at `path`, or its tokenizer has changed since training.

    Example:
        >>> load_trained_run("no/such/run.ckpt")
        Traceback (most recent call last):
        ValueError: no/such/run.ckpt: no such checkpoint
    """
    run, _ = run_and_inputs(path)
    trained = load_trained(path, trust_remote_code=trust_remote_code)
    with torch.inference_mode(False):  # weights that are moved in inference mode cannot have gradients
        trained.network.to(usable_device(device))
    config_file = (run or RunFolder(Path(path))).config_file
    encoder = trained_encoder(trained.encoder, path, config_file, trust_remote_code=trust_remote_code)
    encoder = within_positions(encoder, trained.network)
    return TrainedRun(path, run, trained, encoder, checkpoint_hash(path) if with_hash else "")


def within_positions(encoder: Encoder, network: Classifier) -> Encoder:
    """Returns an encoder that truncates texts to at most as many tokens as a network has positions.

    This is needed because the settings of some tokenizers allow longer texts. The encoder is returned unchanged if the
    network can also read longer texts.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> encoder = within_positions(VocabularyEncoder(words=15, max_length=9999), random_bert())
        >>> len(encoder.encode({"text": "w1 " * 900})) == random_bert().max_length
        True
    """
    longest, positions = getattr(encoder, "max_length", None), getattr(network, "max_length", None)
    if longest is None or positions is None or longest <= positions:
        return encoder
    try:
        network.check_length(longest, "a text")
    except ValueError:
        with suppress(ValueError):  # raised if the encoder cannot truncate; too long texts will then cause errors
            return encoder.with_max_length(positions)
    return encoder


def chosen_methods(methods: Methods, *, signed: bool = False) -> dict[str, AttributionMethod]:
    """Returns class name -> attribution method. If two methods have the same class, the second name ends in "_2".

    Args:
        methods: a method, a name, or a list of these. A name is the name of a class of this package ("ALTI", or
            "ALTI,Random" for two) or a full class_path; the class is built without arguments. None chooses integrated
            gradients with signed scores, whose sum is the logit for the text minus the logit for the baseline.
        signed: as in `method_of_name`.

    Raises:
        ValueError: a name is unknown, its class needs arguments, or no method is given.

    Example:
        >>> list(chosen_methods([IntegratedGradients(), IntegratedGradients(num_steps=3)]))
        ['IntegratedGradients', 'IntegratedGradients_2']
        >>> list(chosen_methods("IntegratedGradients, lightning_xai.attributions.random.Random"))
        ['IntegratedGradients', 'Random']
    """
    if methods is None:
        methods = IntegratedGradients(pooling="sum")
    named: dict[str, AttributionMethod] = {}
    for method in _listed(methods):
        built = method_of_name(method, signed=signed) if isinstance(method, str) else method
        if not isinstance(built, AttributionMethod):
            raise ValueError(f"method is {built!r}: give an AttributionMethod, the name of a class, or a list of these")
        name = type(built).__name__
        number = sum(type(other).__name__ == name for other in named.values()) + 1
        named[name if number == 1 else f"{name}_{number}"] = built
    if not named:
        raise ValueError("no attribution method is given: name one, such as IntegratedGradients")
    return named


def _listed(methods: str | AttributionMethod | Sequence[str | AttributionMethod]) -> list[str | AttributionMethod]:
    if isinstance(methods, str):
        return [name.strip() for name in methods.split(",")]
    return [methods] if isinstance(methods, AttributionMethod) or not isinstance(methods, Sequence) else list(methods)


def unknown_method(name: str, known: Iterable[str]) -> str:
    """Returns the error message for an unknown attribution method, with the most similar name as a suggestion.

    A user may give a name from a table of results, such as att_in_grad, instead of the name of the class.

    Example:
        >>> unknown_method("att_in_grad", ["ALTI", "AttInGrad"])
        "there is no attribution method 'att_in_grad': did you mean AttInGrad? The names are ALTI, AttInGrad"
    """
    names = list(known)
    by_letters = {other.lower(): other for other in names}
    nearest = get_close_matches(name.replace("_", "").lower(), by_letters, n=1)
    hint = f"did you mean {by_letters[nearest[0]]}? The names are" if nearest else "choose one of"
    return f"there is no attribution method {name!r}: {hint} {', '.join(names)}"


def method_of_name(name: str, *, signed: bool = False) -> AttributionMethod:
    """Builds an attribution method from the name of its class. Arguments have their defaults, except as `signed` says.

    Args:
        name: name of a class of this package, or a full class_path.
        signed: whether to pass the `signed_arguments` of the class, so that scores have a sign. A class that is given
            by its class_path keeps all defaults.

    Raises:
        ValueError: there is no such class, or it needs arguments.

    Example:
        >>> method_of_name("IntegratedGradients").has_sign, method_of_name("IntegratedGradients", signed=True).has_sign
        (False, True)
    """
    if "." in name:
        method_class: Any = imported_class(name, AttributionMethod, key="method")
    else:
        known = method_classes()
        method_class = known.get(name)
        if method_class is None:
            raise ValueError(unknown_method(name, known))
    needed = [p.name for p in inspect.signature(method_class).parameters.values() if _is_needed(p)]
    if needed:
        raise ValueError(f"method {name} needs {', '.join(needed)}: build it yourself, as {name.split('.')[-1]}(...)")
    return method_class(**(signed_arguments(method_class) if signed and "." not in name else {}))


def signed_arguments(method_class: type[AttributionMethod]) -> dict[str, str]:
    """Returns the arguments to pass to `method_class` so that its scores are signed.

    Returns {} if its scores are signed by default, or if it has no argument `pooling`. Also returns {} if it measures
    sensitivity, as Gradient does: the sum over the elements of a token's gradient is no contribution to the logit.

    Example:
        >>> signed_arguments(IntegratedGradients)
        {'pooling': 'sum'}
    """
    pooling = inspect.signature(method_class).parameters.get("pooling")
    if pooling is None or pooling.default in SIGNED_POOLINGS or getattr(method_class, "is_sensitivity", False):
        return {}
    return {"pooling": "sum"}


def method_classes() -> dict[str, type[AttributionMethod]]:
    """Returns class name -> class, for all concrete attribution methods imported so far.

    Example:
        >>> "IntegratedGradients" in method_classes(), "AttributionMethod" in method_classes()
        (True, False)
    """
    classes: dict[str, type[AttributionMethod]] = {}
    queue: list[Any] = [AttributionMethod]
    while queue:
        method_class = queue.pop()
        queue += method_class.__subclasses__()
        if not inspect.isabstract(method_class):
            classes[method_class.__name__] = method_class
    return dict(sorted(classes.items()))


def _is_needed(parameter: inspect.Parameter) -> bool:
    takes_any = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not takes_any
