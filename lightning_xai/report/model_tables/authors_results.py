"""Reads the result files of Edin et al. (2024) into tables like those of `read_models`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

COLUMNS = ["model", "run", "part", "method", "metric", "value"]
PLAUSIBILITY, FAITHFULNESS = "plausibility_and_sparsity.csv", "faithfulness.csv"  # result files of one run
# names in the authors' files -> names in this package
METHODS = {
    "random": "random", "laat": "attention", "attention_rollout": "rollout", "deeplift": "deep_lift",
    "gradient_x_input": "input_x_gradient", "integrated_gradient": "integrated_gradients",
    "grad_attention": "att_in_grad", "atgrad_attention": "attention_gradient", "occlusion": "occlusion",
    "kernelshap": "kernel_shap", "lime": "lime",
    "$a$": "attention", r"$x \nabla x$": "input_x_gradient", r"$a x \nabla x$": "att_in_grad",
}  # fmt: skip
PARTS = {"all": "all", "predicted": "predicted", "not_predicted": "missed"}
METRICS = {
    "precision": "precision", "recall": "recall", "f1": "f1", "auprc": "auprc", "no_predictions": "empty",
    "evidence_span_recall": "span_recall", "evidence_span_token_recall": "span_cover", "iou": "iou",
    "precision@5": "precision_at_5", "recall@5": "recall_at_5", "kl_divergence": "kl", "entropy": "entropy",
    "comprehensiveness": "comprehensiveness", "sufficiency": "sufficiency",
}  # fmt: skip
# the authors' special_token_results.csv: name of a model -> its name in this package
_MODELS = {r"B$_{\text{Sup}}$": "B_S", r"B$_{\text{Uns}}$": "B_U", "FM": "TM"}
# columns with the fraction of "special tokens" (tokens without a letter or digit) among the top 5 or in the evidence
_SHARES = {"special_token_rate": "top_5", "ground_truth_special_token_rate": "evidence"}
_ZEROED = "_no_special"  # suffix of columns with results after the scores of "special tokens" were set to 0
_NO_PERCENTAGES = {"entropy", "kl_divergence"}  # columns that are not percentages


def is_authors_run(folder: Path) -> bool:
    """Returns whether a folder contains the result files of one of the authors' runs.

    Example:
        >>> is_authors_run(Path("no/such/run"))
        False
    """
    return (folder / PLAUSIBILITY).is_file()


def read_authors_run(folder: Path, model: str) -> pd.DataFrame:
    """Returns the results of one of the authors' runs, as a table with the columns `COLUMNS`.

    Args:
        folder: folder with plausibility_and_sparsity.csv and, optionally, faithfulness.csv.
        model: name of the model, for the column `model`.

    Raises:
        ValueError: a file lacks a column, or has an unknown method or prediction_split.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> row = {"explainability_method": "laat", "prediction_split": "not_predicted"} | dict.fromkeys(METRICS, 0.5)
        >>> pd.DataFrame([row]).to_csv(folder / PLAUSIBILITY, index=False)
        >>> read_authors_run(folder, "B_U")[["part", "method", "metric"]].iloc[0].tolist()
        ['missed', 'attention', 'precision']
    """
    file = folder / PLAUSIBILITY
    table = pd.read_csv(file)
    names = [name for name in METRICS if name not in ("comprehensiveness", "sufficiency")]
    parts = [_long(table, names, file).assign(part=_renamed(table, "prediction_split", PARTS, file, len(names)))]
    if (folder / FAITHFULNESS).is_file():
        file = folder / FAITHFULNESS
        parts.append(_long(pd.read_csv(file), ["comprehensiveness", "sufficiency"], file).assign(part="all"))
    return pd.concat(parts, ignore_index=True).assign(model=model, run=folder.name)[COLUMNS]


def read_special_tokens(file: Path) -> pd.DataFrame:
    """Returns the authors' results before and after they set the scores of "special tokens" to 0.

    The authors' "special tokens" are tokens without a letter or digit. The table has the columns `COLUMNS`.

    Raises:
        ValueError: the file lacks a column, or has an unknown method.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "special_token_results.csv")
        >>> row = {"Explainer": "$a$", "Model": "FM", "run_id": "3hvf"} | dict.fromkeys(METRICS, 50.0)
        >>> row |= {"f1_no_special": 75.0, "special_token_rate": 20.0, "ground_truth_special_token_rate": 5.0}
        >>> pd.DataFrame([row]).to_csv(file, index=False)
        >>> rows = read_special_tokens(file).set_index(["part", "metric"])["value"]
        >>> float(rows["all", "f1"]), float(rows["zeroed", "f1"]), float(rows["all", "symbol_share/top_5"])
        (0.5, 0.75, 0.2)
    """
    table = pd.read_csv(file)
    _require(table, ["Explainer", "Model", "run_id", *METRICS, *_SHARES], file)
    rows = []
    for _, row in table.iterrows():
        if row["Explainer"] not in METHODS:
            raise ValueError(f"{file}: the method {row['Explainer']!r} is unknown: remove the rows of this method")
        key = (_MODELS.get(row["Model"], row["Model"]), row["run_id"])
        method = METHODS[row["Explainer"]]
        for name, metric in METRICS.items():
            scale = 1 if name in _NO_PERCENTAGES else 100
            rows.append((*key, "all", method, metric, row[name] / scale))
            if f"{name}{_ZEROED}" in table:
                rows.append((*key, "zeroed", method, metric, row[f"{name}{_ZEROED}"] / 100))
        rows += [(*key, "all", method, f"symbol_share/{place}", row[name] / 100) for name, place in _SHARES.items()]
    return pd.DataFrame(rows, columns=COLUMNS)


def _long(table: pd.DataFrame, names: list[str], file: Path) -> pd.DataFrame:
    """Returns the columns `names` in long format: one row per cell, with the columns method, metric and value."""
    _require(table, ["explainability_method", *names], file)
    methods = _renamed(table, "explainability_method", METHODS, file, len(names))
    metrics = [METRICS[name] for _ in range(len(table)) for name in names]
    return pd.DataFrame({"method": methods, "metric": metrics, "value": table[names].to_numpy().flatten()})


def _renamed(table: pd.DataFrame, column: str, names: dict[str, str], file: Path, repeats: int) -> list[str]:
    _require(table, [column], file)
    unknown = sorted(set(table[column]) - set(names))
    if unknown:
        raise ValueError(f"{file}: {column} contains {unknown}: remove rows with values other than {', '.join(names)}")
    return [names[name] for name in table[column] for _ in range(repeats)]


def _require(table: pd.DataFrame, names: list[str], file: Path) -> None:
    missing = [name for name in names if name not in table]
    if missing:
        raise ValueError(f"{file} has no column {', '.join(missing)}: give a result file of Edin et al. (2024)")
