"""Settings of metrics, methods and data, in the form of a configuration."""

from copy import deepcopy
from typing import Any

import yaml

from lightning_xai.commands.parser.config_files import find_config

METRICS = {  # header of a column -> metric
    "Suff": "sufficiency", "LO": "log_odds", "Comp": "comprehensiveness", "A-S": "aopc_sufficiency",
    "A-C": "aopc_comprehensiveness",
}  # fmt: skip
HIGHER_IS_BETTER = {"Comp", "A-C"}
OTHER = "other_erasure"  # preset with the metrics of the preset aml, with masking for deletion, and the reverse
BATCH_SIZE = 20  # texts in a step of a pretraining, as in the paper
_OTHER_METHODS = {
    "random": "random.Random", "integrated_gradients": "integrated_gradients.IntegratedGradients",
    "decompx": "decompx.DecompX", "alti": "alti.ALTI", "glob_enc": "glob_enc.GlobEnc", "lime": "lime.LIME",
    "gradient_shap": "gradient_shap.GradientSHAP", "deep_lift": "deep_lift.DeepLift",
    "input_x_gradient": "input_x_gradient.InputXGradient",
}  # fmt: skip


def mode_of(header: str) -> str:
    return "max" if header in HIGHER_IS_BETTER else "min"


def read_part(name: str) -> dict[str, Any]:
    """Returns the content of a configuration file, which may be one of the package's."""
    return yaml.safe_load(open(find_config(name)))


def metric(header: str, preset: str = "aml") -> dict[str, Any]:
    """Returns the settings of the metric of a column, as a preset of the package defines it."""
    shipped = read_part(f"presets/{'aml' if preset == OTHER else preset}.yaml")
    names = {"Sufficiency": "sufficiency", "LogOdds": "log_odds", "Comprehensiveness": "comprehensiveness"}
    for one in shipped["init_args"]["metrics"]:
        settings = one["init_args"]
        if settings.get("name", names.get(one["class_path"].rpartition(".")[2])) == METRICS[header]:
            if preset == OTHER:
                settings["erasure"] = {"delete": "mask", "mask": "delete"}[settings["erasure"]]
            settings["name"] = METRICS[header]  # else the name of aml.yaml's metric would stay
            return one
    raise AssertionError(f"{preset} has no metric {METRICS[header]}")


def presets() -> list[dict[str, Any]]:
    """Returns the five metrics as in the paper, as in the authors' code, and with the other erasure."""
    return [
        {
            "class_path": "lightning_xai.callbacks.evaluation.AttributionEvaluation",
            "init_args": {"preset": preset, "metrics": [metric(header, preset) for header in METRICS]},
        }
        for preset in ("aml", "aml_code", OTHER)
    ]


def method(path: str, **arguments: Any) -> dict[str, Any]:
    return {"class_path": f"lightning_xai.attributions.{path}", "init_args": arguments}


def other_methods() -> dict[str, Any]:
    return {name: method(path) for name, path in _OTHER_METHODS.items()}


def sig(pooling: str) -> dict[str, Any]:
    return method("sequential_integrated_gradients.SequentialIntegratedGradients", pooling=pooling)


def solvex(objective: str, beam_size: int = 50) -> dict[str, Any]:
    return method("solvex.Solvex", metric=objective, erasure="delete", beam_size=beam_size)


def paml(scorer: str | None = None) -> dict[str, Any]:
    """Returns pAML's settings. If `scorer` is None, the scorer is that of the tested run."""
    return method("aml.AMLAttribution", scorer=scorer)


def faml(header: str, scorer: str | None = None) -> dict[str, Any]:
    """Returns fAML's settings. fAML selects on the metric of a column."""
    return method("aml.AMLAttribution", scorer=scorer, num_steps=10, metric=metric(header))


def explaining(methods: dict[str, Any], texts: int) -> dict[str, Any]:
    arguments = {"targets": "predicted", "max_examples": texts, "methods": methods}
    return {"class_path": "lightning_xai.callbacks.attributions.ComputeAttributions", "init_args": arguments}


def data(file: str, *, train: int, validation: int, test: int, **arguments: Any) -> dict[str, Any]:
    """Returns the data of a file with other numbers of texts, and with other arguments of the data module."""
    content = deepcopy(read_part(file))
    content["init_args"] |= {
        "max_examples": {"train": train, "validation": validation, "test": test}, "stratify": True,
        "tune_on_validation": False, **arguments,
    }  # fmt: skip
    return content


def short(content: dict[str, Any], tokens: int) -> dict[str, Any]:
    """Returns data whose test texts have at most this number of tokens, without special tokens."""
    arguments = content["init_args"] | {"longest": tokens}
    return {"class_path": "barkan2024.own_parts.ShortTexts", "init_args": arguments}


def with_encoder(content: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """Returns data with other arguments of the encoder."""
    content = deepcopy(content)
    content["init_args"]["encoder"].setdefault("init_args", {}).update(arguments)
    return content


def network(file: str) -> dict[str, Any]:
    content = read_part(file)
    content["init_args"].setdefault("path", None)  # else the path of aml.yaml's network would stay
    return content
