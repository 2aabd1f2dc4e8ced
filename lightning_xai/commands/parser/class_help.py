"""`run.py --help CLASS`: describes the arguments of a class that a configuration may name."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence

from jsonargparse._parameter_resolvers import get_signature_parameters

from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.parser.choices import listed_choices
from lightning_xai.functional.own_parts import require_fit
from lightning_xai.runs.class_paths import imported_class

# packages that are searched, in this order, for a class with a given short name
PACKAGES = ("lightning_xai", "lightning.pytorch.callbacks", "lightning.pytorch.loggers", "torch.optim")


def class_help(name: str) -> str:
    """Returns the docstring and arguments of a class and, if it is a base class, the names of derived classes.

    Args:
        name: name of a class, or its dotted path.

    Raises:
        ValueError: there is no such class.

    Example:
        >>> print(class_help("Random").splitlines()[0])
        lightning_xai.attributions.random.Random
    """
    import_all()
    described = imported_class(name, object) if "." in name else class_named(name)
    lines = [f"{described.__module__}.{described.__qualname__}", "", inspect.getdoc(described) or "", "", "Arguments:"]
    for parameter in get_signature_parameters(described, logger=False):
        required = parameter.default is inspect.Parameter.empty
        default = "required" if required else f"default {parameter.default!r}"
        lines.append(f"  {parameter.name}: {type_name(parameter.annotation)} ({default})")
    derived = sorted(derived_names(described))
    return "\n".join([*lines, *(["", f"Classes: {', '.join(derived)}"] if derived else [])])


def class_named(name: str) -> type:
    """Returns the imported class with the given short name, such as "Files".

    Raises:
        ValueError: there is no such class. The message names similar classes.

    Example:
        >>> import_all()
        >>> class_named("Files").__module__
        'lightning_xai.data.sources.files'
        >>> class_named("Fles")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: there is no class 'Fles': choose one of Files, ...
    """
    known: dict[str, type] = {}
    for package in PACKAGES:
        for module_name, module in list(sys.modules.items()):
            if module_name == package or module_name.startswith(f"{package}."):
                for value in vars(module).values():
                    if inspect.isclass(value) and value.__module__.startswith(package.split(".")[0]):
                        known.setdefault(value.__name__, value)
    if name not in known:
        raise ValueError(f"there is no class {name!r}: choose one of {listed_choices(known, name)}")
    return known[name]


def derived_names(base: type) -> set[str]:
    """Returns the names of the classes that `derived_classes` returns.

    Example:
        >>> derived_names(RuntimeWarning)
        set()
    """
    return {derived.__name__ for derived in derived_classes(base)}


def derived_classes(base: type) -> set[type]:
    """Returns the imported concrete classes of this package, Lightning and torch.optim that derive from `base`.

    Classes whose names begin with "_" are left out.

    Example:
        >>> derived_classes(RuntimeWarning)
        set()
    """
    classes: set[type] = set()
    queue: list[type] = list(base.__subclasses__()) if base is not object else []
    while queue:
        derived = queue.pop()
        queue += derived.__subclasses__()
        if not inspect.isabstract(derived) and derived.__module__.startswith(("lightning", "torch.optim")):
            classes.add(derived)
    return {derived for derived in classes if not derived.__name__.startswith("_")}


def abstract_class_problem(named: object, choices: Sequence[str]) -> str:
    """Returns the end of a message about a configuration that names an abstract class.

    Args:
        named: the class.
        choices: names of classes that the configuration may name instead.

    Example:
        >>> abstract_class_problem(object, ["IGR"])
        'needs the name of a class: choose one of IGR'
    """
    if isinstance(named, type) and inspect.isabstract(named) and not named.__module__.startswith("lightning_xai."):
        try:
            require_fit(named)
        except ValueError as error:
            return f"names {named.__module__}.{named.__qualname__}, but {error}"
    return (
        f"needs the name of a class: {f'choose one of {listed_choices(choices)}' if choices else 'give a dotted path'}"
    )


def type_name(annotation: object) -> str:
    """Returns a type as text, without the names of modules.

    Example:
        >>> type_name(int | None), type_name(list[str])
        ('int | None', 'list[str]')
    """
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)
