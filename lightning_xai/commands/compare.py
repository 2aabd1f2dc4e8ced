"""`run.py compare`: tables and pictures of finished experiments side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lightning_xai.commands.parser.typed_command import run_command
from lightning_xai.report.comparison import (
    classification_rows,
    correlations_frame,
    correlations_with,
    faithfulness_panels,
    layer_panels,
    other_splits,
    plausibility_tables,
    predictor_rows,
    scatter_panels,
    write_pictures,
)
from lightning_xai.report.experiments import means_table, missed_bounds, read_experiments
from lightning_xai.report.names import common_folder
from lightning_xai.runs.experiment import report_dir
from lightning_xai.runs.files.whole_files import write_whole

RANKINGS = ("rationale/auroc", "rationale/average_precision", "rationale/recall_at_annotated")


def compare_command(argv: Sequence[str]) -> None:
    """Parses the command line of `compare` and runs it.

    Raises:
        ValueError: for the reasons that `compare` lists.
    """
    run_command(compare, argv, name="compare")


def compare(
    experiments: Sequence[str],
    metric: str = "macro_f1",
    plausibility: Sequence[str] = RANKINGS,
    preset: str | None = None,
    faithfulness: str = "er",
    in_domain: str = "test",
    out_of_domain: Sequence[str] = (),
    output: str | None = None,
) -> None:
    """Prints means over seeds of several experiments, and writes tables and pictures of all their runs.

    The tables show a classification metric on every split, and plausibility metrics by split and method. spread.png
    has a point for each run, scatter.png plausibility and the metric in domain against the metric out of domain,
    layers.png plausibility by layer (of methods such as alti_layer0), and faithfulness.png normalized sufficiency and
    comprehensiveness by percentage. The correlations take all runs as independent.

    Args:
        experiments: folders of finished experiments, such as runs/tm runs/igr. Tests of their runs on other data count.
        metric: the classification metric.
        plausibility: the plausibility metrics. The first one is correlated with the metric.
        preset: preset of the plausibility metrics, if several presets have them.
        faithfulness: preset with a value for each percentage of tokens.
        in_domain: the split in domain.
        out_of_domain: splits out of domain; by default, all but train, validation and test.
        output: folder for the report; by default `report/compare` in the folder that holds all experiments.

    Raises:
        ValueError: an experiment has no tested run, no run has a metric or a split, or several presets have a metric.
    """
    folders = [Path(experiment) for experiment in experiments]
    rows = read_experiments(folders)
    scores = classification_rows(rows, metric)
    for split in (in_domain, *out_of_domain):
        if split not in set(scores["split"]):
            known = ", ".join(scores["split"].unique())
            raise ValueError(f"no run has the split {split!r}: test the runs on it, or choose one of {known}")
    others = list(out_of_domain) or other_splits(scores, in_domain)
    folder = Path(output) if output else report_dir(common_folder(folders)) / "compare"
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "results.csv", lambda file: rows.to_csv(file, index=False))
    written = [folder / "results.csv"]
    tables = [means_table(scores, "split", title=f"{metric} in percent, mean (deviation) over seeds", width=100)]
    tables += plausibility_tables(rows, plausibility, preset, width=100)
    print("\n\n".join(["\n".join([tables[0], *missed_bounds(folders)]), *tables[1:]]))
    scatter = []
    if others:
        quantities = predictor_rows(
            rows, metric=metric, plausibility=plausibility[0], preset=preset, in_domain=in_domain, others=others
        )
        frame = correlations_frame(quantities, in_domain=in_domain)
        scatter = scatter_panels(quantities, frame, f"{metric} out of domain")
        write_whole(folder / "correlations.csv", lambda file: frame.to_csv(file, index=False))
        written.append(folder / "correlations.csv")
        print("\ncorrelation over runs with the mean over " + ", ".join(others))
        for x, found in correlations_with(frame, f"{metric} out of domain").items():
            print(f"  {x}: {found}")
    layers, curves = layer_panels(rows, plausibility[0], preset), faithfulness_panels(rows, faithfulness)
    written += write_pictures(rows, scatter, layers, curves, metric=metric, output=folder)
    print("\n".join(f"written: {file}" for file in written))
