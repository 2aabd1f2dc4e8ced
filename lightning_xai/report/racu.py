"""The report on ROAR chains: tables of RACU with intervals over seeds, and figures of the ROAR curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from torch.utils.tensorboard import SummaryWriter

from lightning_xai.metrics.classification import LOWER_IS_BETTER
from lightning_xai.metrics.racu import leakage, racu
from lightning_xai.report.curves import Panel, curves_figure, figure_image, save_png
from lightning_xai.report.intervals import with_intervals
from lightning_xai.report.roar import RANDOM, read_chains, roar_panels
from lightning_xai.report.sparsity import sparsity_panels
from lightning_xai.report.tables import Column, text_table, wrap
from lightning_xai.runs.files.disk import writing
from lightning_xai.runs.files.whole_files import write_csv, write_whole

Quantity = Literal["racu", "leakage"]

TITLES: dict[Quantity, str] = {
    "racu": "RACU in percent: 0 is as good as random erasures, 100 the best possible",
    "leakage": "leakage in percent: 0 if the erased positions reveal nothing about the label",
}
EVENTS_SUFFIX = ".racu"  # suffix of the TensorBoard file


def racu_by_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the RACU for each experiment, seed and method, and the leakage for each method that has a control.

    Args:
        rows: rows that `read_chains` returns. Only chains that erase percentages of the tokens are used; chains that
            erase fixed numbers of tokens are left out.

    Returns:
        A table with the columns experiment, method, quantity ("racu" or "leakage"), seed and value.

    Raises:
        ValueError: a method's curve and the curve of random erasures have values at different percentages.

    Example:
        >>> points = [("random", 0, 0.9), ("random", 50, 0.8), ("random", 100, 0.5)]
        >>> points += [("gradient", 0, 0.9), ("gradient", 50, 0.5), ("gradient", 100, 0.5)]
        >>> rows = pd.DataFrame(points, columns=["method", "amount", "value"])
        >>> rows = rows.assign(experiment="roar", seed=0, metric="accuracy", control=False, amount_unit="percentage")
        >>> racu_by_seed(rows)["value"].round(3).tolist()  # the area 0.15 divided by the largest area 0.25
        [0.6]
    """
    values: list[tuple[Any, ...]] = []
    chains = rows[rows["amount_unit"] == "percentage"]
    for (experiment, seed), chain in chains.groupby(["experiment", "seed"], sort=False):
        curves = {
            key: curve.set_index("amount")["value"].sort_index()
            for key, curve in chain.groupby(["method", "control"], sort=False)
        }
        random = curves[RANDOM, False]
        fractions = torch.tensor(random.index.to_numpy()) / 100
        sign = -1 if chain["metric"].iloc[0] in LOWER_IS_BETTER else 1
        for (method, control), curve in curves.items():
            if method == RANDOM:
                continue
            if list(curve.index) != list(random.index):
                raise ValueError(
                    f"{experiment}, seed {seed}: {method} has results at {list(curve.index)} % of erased tokens, but "
                    f"random at {list(random.index)} %: finish the chain with the same percentages for both"
                )
            quantity: Quantity = "leakage" if control else "racu"
            area = leakage if control else racu
            value = area(sign * torch.tensor(random.to_numpy()), sign * torch.tensor(curve.to_numpy()), fractions)
            values.append((experiment, method, quantity, seed, float(value)))
    return pd.DataFrame(values, columns=["experiment", "method", "quantity", "seed", "value"])


def racu_table(summary: pd.DataFrame, *, width: int = 80) -> str:
    """Returns tables of RACU and leakage in percent, with a row for each method and a column for each experiment.

    A cell such as "57.9 +14.4 -19.8" gives the mean over seeds, and its distances to the upper and the lower end of the
    confidence interval.

    Args:
        summary: result of `with_intervals` for `racu_by_seed`, with the keys experiment, method and quantity.
        width: number of characters in a line.

    Example:
        >>> row = {"experiment": "roar", "method": "gradient", "quantity": "racu", "num_seeds": 5}
        >>> print(racu_table(pd.DataFrame([row | {"mean": 0.5, "low": 0.25, "high": 0.625}])))
        RACU in percent: 0 is as good as random erasures, 100 the best possible
                              roar
        gradient  50.0 +12.5 -25.0
        seeds                    5
        <BLANKLINE>
        + and -: distances to the ends of the 95 % interval over seeds (BCa bootstrap)
    """
    parts = []
    for quantity, title in TITLES.items():
        rows = summary[summary["quantity"] == quantity]
        if len(rows):
            parts.append(_quantity_table(rows, title, width))
    notes = []
    if (summary["num_seeds"] > 1).any():
        notes.append("+ and -: distances to the ends of the 95 % interval over seeds (BCa bootstrap)")
    if summary["mean"].isna().any():
        notes.append("-: undefined, because there is a seed in which random erasures do not lower the score")
    return "\n\n".join([*parts, *("\n".join(wrap(note, width)) for note in notes)])


def _quantity_table(rows: pd.DataFrame, title: str, width: int) -> str:
    methods = [str(method) for method in rows["method"].unique()]
    columns = []
    for experiment, group in rows.groupby("experiment", sort=False):
        cells = dict(zip(group["method"], map(_cell, group["mean"], group["low"], group["high"]), strict=True))
        num_seeds = _range_text(group["num_seeds"])
        columns.append(Column(str(experiment), [*(cells.get(method, "") for method in methods), num_seeds]))
    return text_table([*methods, "seeds"], columns, title=title, width=width)


def _range_text(numbers: pd.Series) -> str:
    """Returns "5" if all numbers are 5, and "3 to 5" if the smallest is 3 and the largest is 5."""
    low, high = numbers.min(), numbers.max()
    return str(high) if low == high else f"{low} to {high}"


def _cell(mean: float, low: float, high: float) -> str:
    if pd.isna(mean):
        return "-"
    text = f"{100 * mean:.1f}"
    return text if pd.isna(low) else f"{text} +{100 * (high - mean):.1f} -{100 * (mean - low):.1f}"


def write_racu_report(
    folders: Sequence[Path], output: Path, *, metrics: Sequence[str], split: str = "test", events: Path | None = None
) -> str:
    """Writes the report on ROAR chains. Returns a text with the RACU tables and the paths of racu.csv and the figures.

    The files are racu.csv, racu_seeds.csv and roar.png. If experiments were tested with the preset "sparsity", the file
    sparsity.png shows their sparsity curves.

    Args:
        folders: folders of experiments, such as runs/roar.
        output: folder to which the files are written.
        metrics: one metric for all experiments, or a metric for each experiment.
        split: the split whose results are shown.
        events: folder to which a TensorBoard file with the same figures is written; by default `output`.

    Raises:
        ValueError: as in `read_chains` and `racu_by_seed`.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp()) / "roar"
        >>> (folder / "seed0").mkdir(parents=True)
        >>> rows = pd.DataFrame([("random", 0, 0.9), ("random", 100, 0.5)], columns=["method", "amount", "value"])
        >>> rows = rows.assign(seed=0, split="test", metric="accuracy", control=False, amount_unit="percentage")
        >>> rows.to_csv(folder / "seed0" / "roar.csv", index=False)
        >>> printed = write_racu_report([folder], folder / "report", metrics=["accuracy"])
        >>> sorted(file.name for file in (folder / "report").iterdir() if "events" not in file.name)
        ['racu.csv', 'racu_seeds.csv', 'roar.png']
    """
    rows = read_chains(folders, metrics, split)
    by_seed = racu_by_seed(rows)
    summary = with_intervals(by_seed, ["experiment", "method", "quantity"])
    write_csv(by_seed, output / "racu_seeds.csv")
    write_csv(summary, output / "racu.csv")
    panels = {"roar": roar_panels(rows), "sparsity": sparsity_panels(folders, split)}
    pictures = _write_pictures(panels, output, events or output, split)
    table = [racu_table(summary)] if len(summary) else []
    return "\n".join([*table, *(f"written: {file}" for file in [output / "racu.csv", *pictures])])


def _write_pictures(panels: Mapping[str, Sequence[Panel]], output: Path, events: Path, split: str) -> list[Path]:
    """Writes each figure that has panels to a PNG file and to TensorBoard. Returns the paths of the PNG files."""
    with writing(events):
        events.mkdir(parents=True, exist_ok=True)
    for old in events.glob(f"events.out.tfevents*{EVENTS_SUFFIX}"):  # otherwise, TensorBoard would show old figures too
        old.unlink(missing_ok=True)  # another chain may have just removed the file
    files = []
    with SummaryWriter(str(events), filename_suffix=EVENTS_SUFFIX) as writer:
        for name, shown in panels.items():
            if not shown:
                continue
            image = figure_image(curves_figure(shown, max_columns=3 if name == "roar" else 2))
            files.append(output / f"{name}.png")
            write_whole(files[-1], partial(save_png, image))
            writer.add_image(f"{name}/{split}", image, dataformats="HWC")
    return files
