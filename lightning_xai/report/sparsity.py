"""Curves for the preset "sparsity": how much of the sum of absolute scores belongs to the top-scoring tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from lightning_xai.report.curves import Panel
from lightning_xai.report.intervals import percent_curve, with_intervals
from lightning_xai.report.names import experiment_names
from lightning_xai.runs.experiment import runs_of

X_LABELS = {"top_tokens": "top tokens", "top_percent": "top % of tokens"}  # metric -> label of the horizontal axis


def sparsity_panels(folders: Sequence[Path], split: str) -> list[Panel]:
    """Returns up to two panels for each experiment.

    Their curves show which share of the sum of absolute scores belongs to the top-scoring tokens, against the number or
    the percentage of these tokens.

    Args:
        folders: folders of experiments. An experiment that was not tested with the preset "sparsity" gets no panel.
        split: name of the split whose results are shown.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "seed0").mkdir()
        >>> results = pd.DataFrame({"metric": ["top_tokens/1", "top_tokens/2"], "value": [0.5, 0.75]})
        >>> results = results.assign(preset="sparsity", split="test", method="gradient")
        >>> results.to_parquet(folder / "seed0" / "results.parquet")
        >>> (panel,) = sparsity_panels([folder], "test")
        >>> panel.x_label, list(map(float, panel.curves[0].mean))
        ('top tokens', [50.0, 75.0])
    """
    panels = []
    for folder, name in zip(folders, experiment_names(folders), strict=True):
        tables = [run.results for run in runs_of(folder) if run.results is not None]
        if not tables:
            continue
        rows = pd.concat(tables, ignore_index=True)
        rows = rows[(rows["preset"] == "sparsity") & (rows["split"] == split)]
        points = rows["metric"].str.extract(r"^(?P<kind>\w+)/(?P<point>[\d.]+)$")  # such as top_tokens/5
        rows = rows.assign(kind=points["kind"], point=points["point"].astype(float))
        for kind, x_label in X_LABELS.items():
            means = with_intervals(rows[rows["kind"] == kind], ["method", "point"])
            curves = [
                percent_curve(str(method), curve, "point") for method, curve in means.groupby("method", sort=False)
            ]
            if curves:
                panels.append(Panel(name, x_label, "share of importance [%]", curves))
    return panels
