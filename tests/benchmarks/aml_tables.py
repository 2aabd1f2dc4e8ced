"""Tables of pAML, fAML and other methods in the form of Barkan et al. (2024), at any size.

    python tests/benchmarks/aml_tables.py [--out runs/aml_tables] [--trials 20] [--train 4000] ... -- OPTIONS OF FIT

The options of fit hold for all runs, such as `--data data/sst.yaml --data.init_args.source.init_args.path FOLDER`; by
default, MiniLM reads VADER. For a first look in a few CPU minutes:

    python tests/benchmarks/aml_tables.py --trials 8 --train 256 --lr 5e-3 --fit_epochs 6 --scorer_lr 3e-3 \\
        --start explained --epochs 6 --network network/tiny_bert.yaml -- --data planted.yaml

The factors of the loss are searched by shared trials, then a scorer is pretrained for each of two metrics, and tested
beside other methods on the same texts. fAML selects on deletion; the columns "masked" measure another erasure. The same
command continues what was killed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from lightning_xai.commands.main import main as run
from lightning_xai.commands.parser.parts import SHIPPED
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


def with_configs(files: list[str]) -> list[str]:
    return [word for file in files for word in ("--config", file)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/aml_tables"))
    sizes = {"trials": 20, "train": 4000, "validation": 100, "fit_epochs": 2, "epochs": 5, "batches": 12, "texts": 64}
    for option, default in (sizes | {"seed": 0}).items():
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--lr", type=float, default=5e-5, help="learning rate of the explained network")
    parser.add_argument("--scorer_lr", type=float, default=4e-5)
    parser.add_argument("--start", choices=["pretrained", "explained"], default="pretrained")
    parser.add_argument("--network", help="a file of configs/network in place of MiniLM")
    parser.add_argument("options", nargs="*")
    given = parser.parse_args()
    out, files = given.out, given.out / "files"
    examples = {"train": given.train, "validation": given.validation, "test": given.texts}
    common = [
        *given.options, f"--data.init_args.max_examples={json.dumps(examples)}", f"--seed_everything={given.seed}",
        f"--runs_dir={out}",
    ]  # fmt: skip
    rate = "model.init_args.optimizer.init_args.lr"
    teacher = RunFolder.of(out, "explained", given.seed)
    first = [f"--{rate}={given.lr}", f"--trainer.max_epochs={given.fit_epochs}", "--experiment=explained"]
    base = ["aml.yaml"]
    if given.network:  # a file, since an option would keep the path of MiniLM
        own_network = yaml.safe_load((SHIPPED / given.network).read_text())
        own_network["init_args"].setdefault("path", None)
        base.append(save({"model": {"init_args": {"network": own_network}}}, files / "network.yaml"))
    run(["fit", *with_configs([*base, "aml_teacher.yaml"]), *common, *first])

    factors = {f"model.init_args.loss.{name}_weight": {"low": 0.0, "high": 1.0} for name in ("kept", "inverse", "size")}
    _, *others = METRICS
    plan = {
        "fit": base, "settings": factors, "num_trials": given.trials, "sampler": "quasi_random",
        "share_trials": True, "metrics": {f"val/aml/{name}": mode for name, (_, mode) in METRICS.items()},
        "options": {
            "model.init_args.explained": str(teacher.path), "trainer.callbacks": [], "trainer.max_epochs": 2,
            "model.init_args.more_metrics": [metric(name) for name in others], "trainer.val_check_interval": 0.5,
            "trainer.limit_train_batches": (given.batches + 1) // 2, "trainer.limit_val_batches": 1.0,
            "model.init_args.scorer.start": given.start, rate: given.scorer_lr,
        },
    }  # fmt: skip
    run(["search", "--config", save(plan, files / "factors.yaml"), *common])
    searched = RunFolder.of(out, "search/factors", given.seed).path

    tables = []
    for name, (_, mode) in METRICS.items():
        trainer = {
            "max_epochs": given.epochs, "limit_train_batches": given.batches, "limit_val_batches": 1.0,
            "callbacks": [explaining(name, given.texts), "presets/aml.yaml", "presets/aml_masked.yaml"],
        }  # fmt: skip
        own = {"scorer": {"start": given.start}, "optimizer": {"init_args": {"lr": given.scorer_lr}}}
        settings = {
            "model": {"init_args": {"explained": str(teacher.path), "metric": metric(name), **own}},
            "checkpoint": {"monitor": f"val/aml/{name}", "mode": mode}, "trainer": trainer,
        }  # fmt: skip
        configs = [*base, save(settings, files / f"{name}.yaml"), str(searched / f"best_aml_{name}.yaml")]
        run(["fit", *with_configs(configs), *common, f"--experiment={name}"])
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
