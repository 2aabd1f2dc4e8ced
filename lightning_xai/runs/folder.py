"""Run folders: `<runs_dir>/<experiment>/seed<N>/`, their manifest, and the rule that no run overwrites another."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lightning_xai.runs.store import write_json

# settings that do not change a run's numbers
INCIDENTAL = {
    "config", "ckpt_path", "weights_only", "runs_dir", "overwrite", "verbose", "return_predictions", "test_after_fit",
    "follow_up",
}  # fmt: skip
ERASURES = "data.init_args.erasures"
# how settings of a data module begin that say which examples a test measures
TESTED = ("source", "encoder", "max_examples", "extra_test_splits", "erasure")


@dataclass(frozen=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """What is known about the run; {"status": "new"} if nothing is."""
        file = self.path / "manifest.json"
        return json.loads(file.read_text()) if file.exists() else {"status": "new"}

    @property
    def finished(self) -> bool:
        return self.manifest["status"] == "finished"

    def write_manifest(self, **facts: Any) -> None:
        """Adds facts to the manifest, in one step, so that a kill leaves the old one or the new one."""
        write_json(self.path / "manifest.json", {**self.manifest, **facts})

    def checkpoint(self, name: str) -> Path | None:
        """Returns the checkpoint "best" or "last", or None if there is none."""
        file = self.path / "checkpoints" / f"{name}.ckpt"
        return file if file.exists() else None

    @property
    def results(self) -> pd.DataFrame | None:
        """The table of the run's test, or None before it."""
        file = self.path / "results.parquet"
        return pd.read_parquet(file) if file.exists() else None

    def other_data(self, settings: dict[str, Any]) -> str:
        """Returns a name for the examples that `comparable` settings test, "" if they are those of the run's own."""
        own, name = self.manifest.get("settings"), tested_data(settings)
        return name if own is not None and name != tested_data(own) else ""

    def claim(self, settings: dict[str, Any]) -> None:
        """Makes the folder the own one of a configuration, given by its `comparable` settings.

        Raises:
            ValueError: it holds a run of another configuration; the first settings that differ are named.
        """
        found = self.manifest.get("settings")
        if self.checkpoint("last") is None and not self.finished:
            found = None  # a run that ended before its first checkpoint has nothing to lose
        if found is not None and found != settings:
            changed = [key for key in sorted({*found, *settings}) if found.get(key) != settings.get(key)]
            shown = "; ".join(f"{key} was {found.get(key)!r}, now {settings.get(key)!r}" for key in changed[:3])
            raise ValueError(
                f"{self.path} holds a run with other settings ({shown}): name another --experiment, or remove it"
            )
        if found is None:
            self.write_manifest(status="running", settings=settings)


def comparable(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings that a run's numbers depend on, flat: {"data.init_args.batch_size": 16, ...}."""
    kept = {key: value for key, value in config.items() if key not in INCIDENTAL}
    trainer = dict(kept.get("trainer") or {})
    for key in ("default_root_dir", "logger", "enable_progress_bar", "enable_model_summary"):
        trainer.pop(key, None)
    kept["trainer"] = trainer
    found = _flat(json.loads(json.dumps(kept, default=str)))
    erasures, runs_dir = found.get(ERASURES), config.get("runs_dir")
    if erasures and runs_dir and Path(erasures).is_relative_to(runs_dir):  # a folder of runs may be moved
        found[ERASURES] = Path(erasures).relative_to(runs_dir).as_posix()
    return found


def data_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns those of `comparable` settings that say which examples are loaded, and how they are encoded."""
    erased = (ERASURES, "data.init_args.erasure")
    return {key: value for key, value in settings.items() if key.startswith("data.") and key not in erased}


def tested_data(settings: dict[str, Any]) -> str:
    """Returns 6 hex digits that name the examples that `comparable` settings test."""
    prefixes = tuple(f"data.init_args.{name}" for name in TESTED)
    names = [name for name in settings if name.startswith((*prefixes, "data.class_path", "trainer.limit_test_batches"))]
    found = json.dumps({name: settings[name] for name in sorted(names)})
    return hashlib.sha256(found.encode()).hexdigest()[:6]


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict) and value:
        items = [(f"{prefix}.{key}" if prefix else str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list) and value:
        items = [(f"{prefix}.{position}", inner) for position, inner in enumerate(value)]
    else:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in items:
        flat.update(_flat(inner, key))
    return flat
