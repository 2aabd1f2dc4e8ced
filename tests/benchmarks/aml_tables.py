"""Tables of pAML, fAML and other methods on SST, in the form of Barkan et al. (2024), at any size.

    python tests/benchmarks/aml_tables.py --sst FOLDER [--out runs/aml_tables] [--trials 6] [--train 2000]
        [--validation 100] [--epochs 3] [--batches 12] [--texts 32] [--layers 6] [--seed 0]

FOLDER holds train.txt, dev.txt and test.txt of the treebank. The classifier is MiniLM, or its first layers. The factors
of the loss are searched by shared trials, then a scorer is pretrained for each of two metrics, and tested beside other
methods on the same texts. fAML selects on deletion; the columns "masked" measure another erasure. The same command
continues what was killed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import pandas as pd

from lightning_xai.commands.main import main as run
from lightning_xai.runs.folder import RunFolder

METRICS = {"aopc_comprehensiveness": ("Comprehensiveness", "max"), "aopc_sufficiency": ("Sufficiency", "min")}
METHODS = {
    "random": "random.Random", "integrated_gradients": "integrated_gradients.IntegratedGradients",
    "decompx": "decompx.DecompX", "alti": "alti.ALTI", "glob_enc": "glob_enc.GlobEnc", "lime": "lime.LIME",
    "gradient_shap": "gradient_shap.GradientSHAP", "deep_lift": "deep_lift.DeepLift",
    "input_x_gradient": "input_x_gradient.InputXGradient",
}  # fmt: skip


def metric(name: str) -> dict[str, Any]:
    arguments = {
        "name": name, "sizes": {"percentages": [1, 5, 10, 20, 50], "rounding": "floor"}, "erasure": "delete",
        "explained": "predicted",
    }  # fmt: skip
    return {"class_path": f"lightning_xai.metrics.faithfulness.{METRICS[name][0]}", "init_args": arguments}


def explaining(name: str, texts: int) -> dict[str, Any]:
    """Returns the callback that explains with all methods; fAML selects on a metric."""
    methods: dict[str, Any] = {
        key: {"class_path": f"lightning_xai.attributions.{path}"} for key, path in METHODS.items()
    }
    aml = "lightning_xai.attributions.aml.AMLAttribution"
    methods["paml"] = {"class_path": aml, "init_args": {"scorer": None}}
    methods["faml"] = {"class_path": aml, "init_args": {"scorer": None, "num_steps": 10, "metric": metric(name)}}
    arguments = {"targets": "predicted", "max_examples": texts, "methods": methods}
    return {"class_path": "lightning_xai.callbacks.attributions.ComputeAttributions", "init_args": arguments}


def save(values: dict[str, Any], file: Path) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values, indent=1))
    return str(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst", required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/aml_tables"))
    sizes = {
        "trials": 6,
        "train": 2000,
        "validation": 100,
        "epochs": 3,
        "batches": 12,
        "texts": 32,
        "layers": 6,
        "seed": 0,
    }
    for option, default in sizes.items():
        parser.add_argument(f"--{option}", type=int, default=default)
    given = parser.parse_args()
    out, files = given.out, given.out / "files"
    sizes = {"train": given.train, "validation": given.validation, "test": max(given.texts, 200)}
    data = [
        "--data", "data/sst.yaml", f"--data.init_args.source.init_args.path={given.sst}",
        f"--data.init_args.max_examples={json.dumps(sizes)}", f"--seed_everything={given.seed}", f"--runs_dir={out}",
        f"--model.init_args.network.init_args.num_layers={given.layers}",
    ]  # fmt: skip
    teacher = RunFolder.of(out, "explained", given.seed)
    run(["fit", "--config", "aml.yaml", "--config", "aml_teacher.yaml", *data, "--experiment=explained"])

    factors = {f"model.init_args.loss.{name}_weight": {"low": 0.0, "high": 1.0} for name in ("kept", "inverse", "size")}
    first, *others = METRICS
    plan = {
        "fit": "aml.yaml", "settings": factors, "num_trials": given.trials, "sampler": "quasi_random",
        "share_trials": True, "metrics": {f"val/aml/{name}": mode for name, (_, mode) in METRICS.items()},
        "options": {
            "model.init_args.explained": str(teacher.path), "trainer.callbacks": [], "trainer.max_epochs": 1,
            "model.init_args.more_metrics": [metric(name) for name in others], "trainer.val_check_interval": 0.5,
            "trainer.limit_train_batches": (given.batches + 1) // 2, "trainer.limit_val_batches": 1.0,
        },
    }  # fmt: skip
    run(["search", "--config", save(plan, files / "factors.yaml"), *data])
    searched = RunFolder.of(out, "search/factors", given.seed).path

    tables = []
    for name, (_, mode) in METRICS.items():
        trainer = {
            "max_epochs": given.epochs, "limit_train_batches": given.batches, "limit_val_batches": 1.0,
            "callbacks": [explaining(name, given.texts), "presets/aml.yaml", "presets/aml_masked.yaml"],
        }  # fmt: skip
        settings = {
            "model": {"init_args": {"explained": str(teacher.path), "metric": metric(name)}},
            "checkpoint": {"monitor": f"val/aml/{name}", "mode": mode}, "trainer": trainer,
        }  # fmt: skip
        configs = ["aml.yaml", save(settings, files / f"{name}.yaml"), str(searched / f"best_aml_{name}.yaml")]
        run(["fit", *(word for config in configs for word in ("--config", config)), *data, f"--experiment={name}"])
        results = RunFolder.of(out, name, given.seed).results
        assert results is not None
        tables.append(table(results, name))
    print(pd.concat(tables, axis=1).round(4).to_string())
    print(pd.read_csv(searched / "trials.csv").round(4).to_string(index=False))


def table(results: pd.DataFrame, name: str) -> pd.DataFrame:
    """Returns a metric by deletion and by masks, and the seconds for an example, for each method."""
    rows = results[(results["metric"] == name) & (results["split"] == "test")]
    columns = {preset: rows[rows["preset"] == preset].set_index("method") for preset in ("aml", "aml_masked")}
    return pd.DataFrame(
        {
            name: columns["aml"]["value"], f"{name}, masked": columns["aml_masked"]["value"],
            "seconds": columns["aml"]["seconds"],
        }
    )  # fmt: skip


if __name__ == "__main__":
    main()
