"""Sets arguments of the network, such as the number of classes, from the data.

Also tells a data module the path of the configuration file that describes the data.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from lightning_xai.commands.parser.parts import SHIPPED
from lightning_xai.data.module import TextDataModule
from lightning_xai.models.base import Classifier
from lightning_xai.runs.progress import say

_IDS = ("pad_id", "mask_id")
_COMPARED = ("num_classes", "multilabel", *_IDS)
# names of attributes of the data module that are also arguments of some networks
LINKED = ("num_classes", "multilabel", "vocab_size", "word_vectors", "verbalizers", *_IDS)


def link_network_to_data(parser: ArgumentParser) -> None:
    """Links arguments of the network to attributes of the data module, which the parser then builds first.

    Example:
        >>> from lightning_xai.commands.parser.run_parser import RunParser
        >>> from lightning_xai.data.module import TextDataModule
        >>> from lightning_xai.objectives.base import Objective
        >>> parser = RunParser(exit_on_error=False)
        >>> parser.add_subclass_arguments(TextDataModule, "data")
        >>> parser.add_subclass_arguments(Objective, "model")
        >>> link_network_to_data(parser)
    """
    for name in LINKED:
        parser.link_arguments(f"data.{name}", f"model.init_args.network.init_args.{name}", apply_on="instantiate")


def check_linked_arguments(config: Namespace, network: Classifier, *, trains: bool) -> None:
    """Compares four configured arguments of the network with the values that the network gets from the data.

    The arguments are `num_classes`, `multilabel`, `pad_id` and `mask_id`. If a configured value is the network's
    default but not the data's value, the data's value is used. For `pad_id` and `mask_id`, a line then says so.

    Args:
        config: parsed configuration of a subcommand.
        network: the network, built with the data's values.
        trains: whether the network is to be trained. If not, nothing is compared, because the values have no effect.

    Raises:
        ValueError: a configured value is neither the network's default nor the data's value.

    Example:
        >>> from lightning_xai.models.bilstm import BiLSTMAttention
        >>> given = {"model.init_args.network": {"init_args": {"pad_id": 0, "mask_id": 4}}}
        >>> check_linked_arguments(given, BiLSTMAttention(vocab_size=9, mask_id=5), trains=True)
        Traceback (most recent call last):
        ValueError: the network's mask_id is 4, but the data's is 5: leave mask_id out; the data set it
    """
    spec: Any = config.get("model.init_args.network")
    arguments = {} if spec is None else spec.get("init_args") or {}
    parameters = inspect.signature(type(network).__init__).parameters
    for name in _COMPARED:
        if not trains or name not in parameters or name not in arguments:
            continue
        given, linked = arguments[name], network.init_args[name]
        if given not in (linked, parameters[name].default):
            raise ValueError(
                f"the network's {name} is {given}, but the data's is {linked}: leave {name} out; the data set it"
            )
        if given != linked and name in _IDS:
            say(f"the network's {name} is set to {linked}, as in the encoder")


def give_config_path(data: Any, config: Namespace | None, config_files: Sequence[str]) -> None:
    """Tells a TextDataModule the path of the file that describes it: its own file, or the command's configuration.

    Args:
        data: the data module. If it is not a TextDataModule, nothing is done.
        config: the parsed configuration of the data.
        config_files: configuration files of the command. If the data have no file of their own, the last one is used.

    Example:
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> data = TextDataModule(Planted(), VocabularyEncoder(words=95))
        >>> give_config_path(data, Namespace(), [str(SHIPPED / "roar.yaml")])
        >>> data.encoded_source.configuration
        'roar.yaml'
    """
    own = None if config is None else config.get("__path__")  # the data's own configuration file, or None
    if not isinstance(data, TextDataModule) or own is None and not config_files:
        return
    file = Path(config_files[-1] if own is None else own.absolute).absolute()
    folders = [folder for folder in (Path("configs").absolute(), SHIPPED, Path.cwd()) if file.is_relative_to(folder)]
    data.encoded_source.configuration = (file.relative_to(folders[0]) if folders else file).as_posix()
