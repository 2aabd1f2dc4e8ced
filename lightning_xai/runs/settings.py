"""Selects those settings of a run that affect the results or the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# settings that do not affect a run's results
INCIDENTAL = {
    "config", "ckpt_path", "weights_only", "runs_dir", "overwrite", "verbose", "return_predictions", "test_after_fit",
    "follow_up", "stage", "format", "preflight", "skip_unfit",
}  # fmt: skip
INCIDENTAL_OF_TRAINER = {"default_root_dir", "logger", "enable_progress_bar", "enable_model_summary"}
ERASURES = "data.init_args.erasures"
ERASURE = "data.init_args.erasure"
CACHE_DIR = "data.init_args.cache_dir"  # does not affect results: encoded data are the same in every folder
# arguments of the data module on which the test examples depend, with all dotted names that begin with one of these
TEST_DATA_ARGUMENTS = ("source", "encoder", "max_examples", "stratify", "extra_test_splits", "erasure")


def run_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Selects from a configuration the settings that affect a run's results. Returns dotted name -> value.

    Example:
        >>> run_settings({"runs_dir": "runs", "trainer": {"max_epochs": 3, "logger": None}, "data": {"sizes": [8, 2]}})
        {'trainer.max_epochs': 3, 'data.sizes.0': 8, 'data.sizes.1': 2}
    """
    kept = {name: value for name, value in config.items() if name not in INCIDENTAL}
    trainer = dict(kept.get("trainer") or {})
    kept["trainer"] = {name: value for name, value in trainer.items() if name not in INCIDENTAL_OF_TRAINER}
    settings = flat(json.loads(json.dumps(kept, default=str)))
    settings.pop(CACHE_DIR, None)
    erasures, runs_dir = settings.get(ERASURES), config.get("runs_dir")
    if erasures and runs_dir and Path(erasures).is_relative_to(runs_dir):
        # a path relative to `runs_dir` does not change when that folder is moved
        settings[ERASURES] = Path(erasures).relative_to(runs_dir).as_posix()
    return settings


def data_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that determine how examples are loaded and encoded, before any tokens are erased.

    Example:
        >>> data_settings({"data.init_args.batch_size": 8, "data.init_args.erasure": "mask", "seed_everything": 0})
        {'data.init_args.batch_size': 8}
    """
    return {
        name: value for name, value in settings.items() if name.startswith("data.") and name not in (ERASURES, ERASURE)
    }


def preflight_key(settings: Mapping[str, Any]) -> str:
    """Returns a text that identifies a run's callbacks, model, precision, accelerator, and data (before erasure).

    Example:
        >>> preflight_key({"data.init_args.erasure": "mask", "model.size": 2, "experiment": "a"})
        '{"model.size": 2}'
    """
    of_trainer = ("trainer.callbacks", "trainer.precision", "trainer.accelerator")
    chosen = {name: value for name, value in settings.items() if name.startswith(("model.", *of_trainer))}
    return json.dumps(chosen | data_settings(settings), sort_keys=True)


def hash_of_test_data(settings: Mapping[str, Any]) -> str:
    """Returns 6 hex digits that identify the test examples of a run with these settings.

    Example:
        >>> small, large = ({"data.init_args.max_examples.test": size} for size in (3, 4))
        >>> hash_of_test_data(small) == hash_of_test_data(large)
        False
        >>> hash_of_test_data({"lr": 1}) == hash_of_test_data({"lr": 2})
        True
    """
    beginnings = (
        *(f"data.init_args.{name}" for name in TEST_DATA_ARGUMENTS),
        "data.class_path",
        "trainer.limit_test_batches",
    )
    names = [name for name in settings if name.startswith(beginnings)]
    chosen = json.dumps({name: settings[name] for name in sorted(names)})
    return hashlib.sha256(chosen.encode()).hexdigest()[:6]


def changed_settings(stored: Mapping[str, Any], current: Mapping[str, Any]) -> list[str]:
    """Returns the sorted names of the settings that differ between two runs or that only one run has.

    Example:
        >>> changed_settings({"lr": 1, "seed": 0}, {"lr": 2, "seed": 0, "decay": 1})
        ['decay', 'lr']
    """
    return [name for name in sorted({*stored, *current}) if stored.get(name) != current.get(name)]


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Turns nested dictionaries and lists into one dictionary: dotted name -> value.

    An empty dictionary or list counts as a value.

    Example:
        >>> flat({"a": {"b": [1, 2]}, "c": []})
        {'a.b.0': 1, 'a.b.1': 2, 'c': []}
    """
    if isinstance(value, dict) and value:
        items = [(f"{prefix}.{key}" if prefix else str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list) and value:
        items = [(f"{prefix}.{position}", inner) for position, inner in enumerate(value)]
    else:
        return {prefix: value}
    settings: dict[str, Any] = {}
    for name, inner in items:
        settings.update(flat(inner, name))
    return settings
