"""The runs that the tables need. A finished run is not repeated, and a killed one continues."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from barkan2024.options import Given
from barkan2024.settings import (
    BATCH_SIZE,
    METRICS,
    data,
    explaining,
    faml,
    metric,
    mode_of,
    network,
    paml,
    presets,
)
from lightning_xai.commands.main import main as command
from lightning_xai.runs.folder import RunFolder

FACTORS = ("kept", "inverse", "size")
_AML = "lightning_xai.objectives.aml.AML"


def fitted(given: Given, name: str, seed: int, files: list[str], settings: dict[str, Any]) -> RunFolder:
    """Returns a run of `fit`, which also tests it."""
    return _finished(given, "fit", name, seed, files, settings)


def tested(given: Given, name: str, seed: int, settings: dict[str, Any]) -> RunFolder:
    """Returns a run of `test` with a trained network."""
    return _finished(given, "test", name, seed, ["evaluate.yaml"], settings)


def _finished(
    given: Given, word: str, name: str, seed: int, files: list[str], settings: dict[str, Any]
) -> RunFolder:  # fmt: skip
    """Returns a run after its command. A file in its folder says which command is finished, as `test` has no memory."""
    run = RunFolder.of(given.out, name, seed)
    done, now = run.path / "finished.json", json.dumps([word, files, settings], sort_keys=True)
    if not (done.exists() and done.read_text() == now):
        files = [*files, saved(given, f"{name}/seed{seed}", settings)] if word != "search" else files
        configs = [part for file in files for part in ("--config", file)]
        command([word, *configs, f"--experiment={name}", f"--seed_everything={seed}", f"--runs_dir={given.out}"])
        done.write_text(now)
    return run


def saved(given: Given, name: str, settings: dict[str, Any]) -> str:
    file = given.out / "files" / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    return str(file)


def explained(given: Given, corpus: str, seed: int) -> Path:
    """Returns the folder of the network that is explained, after its training."""
    n = given.sizes
    settings = {
        "model": {
            "init_args": {"network": network(given.network), "optimizer": {"init_args": {"lr": given.network_lr}}}
        },
        "data": data(
            given.corpora[corpus], train=n["train"], validation=5 * n["validation"], test=n["network_tests"]
        ),
        "trainer": {"max_epochs": n["network_epochs"]},
    }  # fmt: skip
    return fitted(given, f"{corpus}/explained", seed, ["aml.yaml", "aml_teacher.yaml"], settings).path


def pretraining(given: Given, explained: Path | str, header: str, corpus_data: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of an AML run whose checkpoint is chosen by the metric of a column."""
    return {
        "model": {
            "class_path": _AML,
            "init_args": {
                "network": network(given.network), "explained": str(explained), "metric": metric(header),
                "optimizer": {"init_args": {"lr": given.scorer_lr}}, "scorer": {"start": given.start},
            },
        },
        "data": corpus_data,
        "checkpoint": {"monitor": f"val/aml/{METRICS[header]}", "mode": mode_of(header)},
        "trainer": {
            "max_epochs": given.sizes["scorer_epochs"], "limit_train_batches": 1.0, "limit_val_batches": 1.0,
            "callbacks": [],
        },
    }  # fmt: skip


def scorer_data(given: Given, corpus: str) -> dict[str, Any]:
    n = given.sizes
    return data(
        given.corpora[corpus], train=n["scorer_train"], validation=n["validation"], test=n["texts"],
        batch_size=BATCH_SIZE,
    )  # fmt: skip


def searched(given: Given, corpus: str) -> Path:
    """Returns the folder of the search: shared trials with the first seed, rated by all metrics.

    The data module draws the texts at random, with the share of each class.
    """
    seed, n = given.seeds[0], given.sizes
    first, *others = given.metrics
    settings = pretraining(given, explained(given, corpus, seed), first, scorer_data(given, corpus))
    settings["data"]["init_args"]["max_examples"]["train"] = n["trial_train"]
    settings["model"]["init_args"]["more_metrics"] = [metric(header) for header in others]
    settings["trainer"] |= {"max_epochs": 2, "val_check_interval": 0.5}
    plan = {
        "fit": ["aml.yaml", str(Path(saved(given, f"{corpus}/trial", settings)).resolve())],
        "settings": {f"model.init_args.loss.{name}_weight": {"low": 0.0, "high": 1.0} for name in FACTORS},
        "metrics": {f"val/aml/{METRICS[header]}": mode_of(header) for header in given.metrics},
        "num_trials": n["trials"], "sampler": "quasi_random", "share_trials": True,
    }  # fmt: skip
    file = saved(given, f"{corpus}/search", plan)
    return _finished(given, "search", f"{corpus}/search", seed, [file], settings | {"plan": plan}).path


def factors(given: Given, corpus: str, header: str) -> dict[str, float]:
    """Returns the factors of the loss that the search found for a metric."""
    best = yaml.safe_load((searched(given, corpus) / f"best_aml_{METRICS[header]}.yaml").read_text())
    return best["model"]["init_args"]["loss"]


def scorer(
    given: Given, corpus: str, seed: int, header: str, *, name: str = "", loss: dict[str, Any] | None = None,
    start: str | None = None, fill: dict[str, Any] | None = None, tuned: bool = True,
) -> RunFolder:  # fmt: skip
    """Returns the run of a scorer for a metric. Its test explains with pAML and, if `tuned`, with fAML.

    Args:
        given: the given options.
        corpus: name of the corpus.
        seed: the seed.
        header: header of the metric's column.
        name: name of the run if it is a variant.
        loss: settings of the loss to change.
        start: initial weights of the scorer, if they are others than those of the options.
        fill: other data, whose fill token differs.
        tuned: whether fAML also explains.
    """
    content = fill or scorer_data(given, corpus)
    settings = pretraining(given, explained(given, corpus, seed), header, content)
    settings["model"]["init_args"]["loss"] = factors(given, corpus, header) | (loss or {})
    settings["model"]["init_args"]["scorer"]["start"] = start or given.start
    methods = {"paml": paml()} | ({"faml": faml(header)} if tuned else {})
    settings["trainer"]["callbacks"] = [explaining(methods, given.sizes["texts"]), *presets()]
    return fitted(given, f"{corpus}/{name or METRICS[header]}", seed, ["aml.yaml"], settings)


def results(run: RunFolder) -> pd.DataFrame:
    """Returns the rows of methods on the test split."""
    rows = run.results
    assert rows is not None
    rows = rows[(rows["split"] == "test") & (rows["method"] != "")]
    costs = ["pass_group", "forward_passes", "backward_passes", "seconds"]
    columns = ["preset", "method", "metric", "value", "num_examples", "selected_on", *costs]
    return rows[columns].reset_index(drop=True)


def accuracy(run: RunFolder) -> float:
    rows = run.results
    assert rows is not None
    return float(rows[(rows["split"] == "test") & (rows["metric"] == "accuracy")]["value"].iloc[0])
