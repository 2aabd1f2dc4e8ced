"""Converts old configurations, in which IGR, PGD and supervised attention were objectives. Now they are terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PACKAGE = "lightning_xai.objectives"
# old class path -> (name of the term, class path of the term, {old argument: argument of the term})
_TERMS: dict[str, tuple[str, str, dict[str, str]]] = {
    f"{_PACKAGE}.input_gradient.InputGradient": (
        "igr",
        f"{_PACKAGE}.terms.input_gradient.InputGradient",
        {name: name for name in ("weight", "wrt", "per", "norm")},
    ),
    f"{_PACKAGE}.pgd.PGD": (
        "pgd",
        f"{_PACKAGE}.terms.pgd.PGD",
        {
            "adversarial_weight": "weight",
            **{name: name for name in ("epsilon", "search", "step_rule", "initialization")},
        },
    ),
    f"{_PACKAGE}.supervised_attention.SupervisedAttention": (
        "attention",
        f"{_PACKAGE}.terms.supervised_attention.SupervisedAttention",
        {name: name for name in ("weight", "reduction")},
    ),
}


def with_terms(setting: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replaces an objective that is now a term by `Supervised` with this term. Returns other objectives unchanged.

    Example:
        >>> old = {"class_path": "lightning_xai.objectives.pgd.PGD", "init_args": {"clean_weight": 0.5, "epsilon": 0.1}}
        >>> new = with_terms(old)
        >>> new["class_path"], new["init_args"]["task_weight"], new["init_args"]["terms"]["pgd"]["init_args"]
        ('lightning_xai.objectives.supervised.Supervised', 0.5, {'epsilon': 0.1})
    """
    known = _TERMS.get(str(setting.get("class_path")))
    if known is None:
        return setting
    name, class_path, names = known
    arguments = dict(setting.get("init_args") or {})
    of_term = {names[key]: arguments.pop(key) for key in list(arguments) if key in names}
    if "clean_weight" in arguments:
        arguments["task_weight"] = arguments.pop("clean_weight")
    term = {"class_path": class_path, "init_args": of_term}
    return {"class_path": f"{_PACKAGE}.supervised.Supervised", "init_args": {**arguments, "terms": {name: term}}}
