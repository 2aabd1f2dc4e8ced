"""The report on several models with several seeds: tables and figures in the form of Edin et al. (2024)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from lightning_xai.report.curves import figure_image, save_png
from lightning_xai.report.model_tables.figures import paper_figures
from lightning_xai.report.model_tables.results import over_seeds, read_models
from lightning_xai.report.model_tables.tables import LEGEND, TABLES, markdown_table, paper_tables
from lightning_xai.report.names import experiment_names
from lightning_xai.report.tables import wrap
from lightning_xai.runs.experiment import other_data_notes
from lightning_xai.runs.files.whole_files import write_csv, write_whole


def write_models_report(
    places: Sequence[Path],
    output: Path,
    *,
    names: Sequence[str] = (),
    unsupervised: str | None = None,
    supervised: str | None = None,
    split: str = "test",
    preset: str = "edin",
    preset_file: str | None = None,
    width: int = 100,
) -> str:
    """Writes tables.csv, tables.md and the figures. Returns, as text, the tables and the paths of all written files.

    Args:
        places, names, split, preset, preset_file: as in `read_models`.
        output: folder to which the files are written.
        unsupervised, supervised: as in `over_seeds`.
        width: number of characters in a line.

    Raises:
        ValueError: as in `read_models` and `over_seeds`.

    Example:
        >>> import pandas as pd, tempfile
        >>> from lightning_xai.report.model_tables.authors_results import METRICS, PLAUSIBILITY
        >>> folder = Path(tempfile.mkdtemp()) / "tm"
        >>> (folder / "3hvf").mkdir(parents=True)
        >>> row = {"explainability_method": "laat", "prediction_split": "all"} | dict.fromkeys(METRICS, 0.5)
        >>> pd.DataFrame([row]).to_csv(folder / "3hvf" / PLAUSIBILITY, index=False)
        >>> printed = write_models_report([folder], folder / "report")
        >>> sorted(file.name for file in (folder / "report").iterdir())
        ['plausibility.png', 'tables.csv', 'tables.md']
    """
    rows = read_models(places, split=split, preset=preset, names=names, preset_file=preset_file)
    summary = over_seeds(rows, unsupervised=unsupervised, supervised=supervised)
    write_csv(summary, output / "tables.csv")
    parts = [text for table in TABLES.values() if (text := markdown_table(summary, table))]
    legend = LEGEND.replace("*: mean", "bold: mean").replace("_: mean", "underlined: mean")
    other_data = other_data_notes(dict(zip(names or experiment_names(places), places, strict=True)))
    markdown = "\n\n".join([legend, *other_data, *parts]) + "\n"
    write_whole(output / "tables.md", lambda file: file.write_text(markdown, encoding="utf-8"))
    files = [output / "tables.csv", output / "tables.md"]
    for name, figure in paper_figures(rows, unsupervised=unsupervised, supervised=supervised).items():
        files.append(output / f"{name}.png")
        write_whole(files[-1], partial(save_png, figure_image(figure)))
    notes = [line for note in [LEGEND, *other_data] for line in wrap(note, width)]
    tables = [*paper_tables(summary, width=width).values(), "\n".join(notes)]
    return "\n\n".join([*tables, "\n".join(f"written: {file}" for file in files)])
