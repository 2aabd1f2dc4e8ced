"""`run.py compare`: tables and figures that compare finished experiments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pandas as pd

from lightning_xai.commands.parser.typed_command import run_command
from lightning_xai.commands.trade_off import read_trade_off
from lightning_xai.metrics.classification import LOWER_IS_BETTER
from lightning_xai.report.comparison.agreement import agreement_figure, agreement_frame, agreement_table, shared_methods
from lightning_xai.report.comparison.differences import differences_frame
from lightning_xai.report.comparison.experiments import STAR, means_table, missed_bounds, read_experiments
from lightning_xai.report.comparison.tables_and_pictures import (
    PER_SIZE,
    attribution_rows,
    correlations_frame,
    faithfulness_panels,
    layer_panels,
    other_splits,
    out_of_domain_correlations,
    plausibility_tables,
    predictor_rows,
    rows_of_metric,
    scatter_panels,
    write_pictures,
    write_table_and_figure,
)
from lightning_xai.report.names import common_folder, experiment_names
from lightning_xai.report.tables import terminal_width, wrap
from lightning_xai.runs.experiment import free_report_dir, other_data_notes, record_compared, report_dir, runs_of
from lightning_xai.runs.files.whole_files import write_csv
from lightning_xai.runs.splits import VALIDATION

ER = "er"
RANKINGS = ("rationale/auroc", "rationale/average_precision", "rationale/recall_at_annotated")


def compare_command(argv: Sequence[str]) -> None:
    """Parses the command line of `compare` and runs it.

    Raises:
        ValueError: as in `compare`.
    """
    run_command(compare, argv, name="compare")


def compare(
    experiments: Sequence[str],
    metric: str = "macro_f1",
    plausibility: Sequence[str] = RANKINGS,
    preset: str | None = None,
    faithfulness: str = ER,
    in_domain: str = "test",
    out_of_domain: Sequence[str] = (),
    agreement: str | None = None,
    trade_off: str | None = None,
    output: str | None = None,
) -> None:
    """Prints means over the seeds of several experiments, and writes tables and figures about all runs.

    The tables show a classification metric on every split, and plausibility metrics by split and method, each with the
    sample standard deviation over seeds (divisor n - 1). A star marks a mean if the 95 % interval of its difference to
    the first experiment (Welch's t-test) does not contain 0. There is no star if one of the two experiments has a
    single seed, or if neither varies over seeds. differences.csv has these intervals for all metrics. If no mean truly
    differs, about one of twenty still gets a star. The rows of an experiment are empty if no seed met its bounds.
    spread.png has a point for each run. scatter.png plots the metric and the plausibility in domain against the metric
    out of domain, and scatter_plausibility.png against the plausibility out of domain; the confidence intervals of the
    correlations treat all runs as independent. layers.png shows plausibility by layer (for methods such as
    alti_layer0). faithfulness.png shows normalized sufficiency and comprehensiveness by percentage of tokens.

    Args:
        experiments: folders of finished experiments, such as runs/tm runs/igr. Later tests of their runs on other data
            are included.
        metric: the classification metric.
        plausibility: the plausibility metrics, as results.csv names them. The default names metrics of the presets er
            and er_plausibility; if no run has these, no plausibility is shown. Other presets have other metrics, such
            as rationale/token_f1 in eraser. The first metric is correlated with `metric` and itself on other splits.
        preset: the preset whose plausibility metrics are read; required if several presets have them.
        faithfulness: the preset that faithfulness.png shows. Its normalized metrics must have a value for each
            percentage of tokens.
        in_domain: the in-domain split.
        out_of_domain: the out-of-domain splits; by default, all except train, validation, test and `in_domain`.
        agreement: split whose stored attributions are compared by Kendall's tau-b. Each run is compared with the runs
            of the first experiment that have another seed. Runs store attributions if they use
            callbacks/attribution_cache.yaml.
        trade_off: name of a loss term. trade_off.png plots the log loss against this term's loss, both on the
            validation split at each run's best checkpoint, with a line at the bound of constrained runs. Every run
            must have this term, with the same settings except its weight; give it `weight: 0` in runs whose training
            must not use it. A table has both losses and, if the runs measured it on the validation split, the first
            plausibility metric of the method that the term guides.
        output: folder for the report; by default `report/compare` in the common folder of all experiments or, if this
            folder has a report on other experiments, `report/compare_2`, and so on.

    Raises:
        ValueError: an experiment has no tested run; no run has results of a given metric or split; several presets have
            a metric, and `preset` is missing; a run stored no attributions on the split `agreement`; a run did not log
            the loss of the term `trade_off` in validation; or the settings or bounds of this term differ.
    """
    if not plausibility:
        raise ValueError("plausibility is empty: name at least one metric, or leave the option out")
    if metric in LOWER_IS_BETTER:
        raise ValueError(f"metric is {metric}, which can exceed 1: choose a metric in [0, 1], such as macro_f1")
    if trade_off == "log_loss":
        raise ValueError("trade_off is log_loss, the other axis of the plot: give the name of a term, such as guidance")
    folders = [Path(experiment) for experiment in experiments]
    rows, names = read_experiments(folders), experiment_names(folders)
    _check_presets(rows, plausibility, preset, faithfulness)
    scores = rows_of_metric(rows, metric)
    for split in (in_domain, *out_of_domain):
        if split not in set(scores["split"]):
            known = ", ".join(scores["split"].unique())
            raise ValueError(f"no run has the split {split!r}: test the runs on this split, or choose one of {known}")
    if in_domain in out_of_domain:
        raise ValueError(f"the split {in_domain!r} is both in_domain and out_of_domain: leave it out of out_of_domain")
    others = list(dict.fromkeys(out_of_domain)) or other_splits(scores, in_domain)
    by_name = dict(zip(names, folders, strict=True))
    losses = None
    if trade_off is not None:
        plausible = attribution_rows(rows, plausibility[0], preset)
        plausible = plausible[plausible["split"] == VALIDATION]
        losses = read_trade_off(by_name, trade_off, plausible, metric=plausibility[0])
    title, width = f"{metric} in percent, mean (sample deviation) over seeds", terminal_width()
    tables = [means_table(scores, names, "split", title=title, width=width)]
    tables += plausibility_tables(rows, names, plausibility, preset, width=width)
    tables += [] if losses is None else [losses.table(names, width=width)]
    notes = [*missed_bounds(folders), *other_data_notes(by_name)]
    tables[0] = "\n".join([tables[0], *(line for note in notes for line in wrap(note, width))])
    tested = {name: [run.path for run in runs_of(folder) if run.is_tested] for name, folder in by_name.items()}
    agreements = None if agreement is None else agreement_frame(tested, agreement)
    default = report_dir(common_folder(folders)) / "compare"
    folder = Path(output) if output else free_report_dir(default, folders)
    written = [write_csv(rows, folder / "results.csv")]
    print("\n\n".join(tables))
    if len(names) > 1:
        written.append(write_csv(differences_frame(rows, names), folder / "differences.csv"))
        if any(STAR in table for table in tables):
            note = f"{STAR} differs from {names[0]}: the 95 % interval of the difference (Welch) excludes 0"
            _print_note(note, width)
    if unknown := [name for name in plausibility if name not in set(rows["metric"])]:
        remedy = "--plausibility takes the names of other metrics in results.csv, and --preset their preset"
        _print_note(f"no run has {' or '.join(unknown)}: {remedy}", width)
    scatter = []
    if others:
        quantities = predictor_rows(
            rows, metric=metric, plausibility=plausibility[0], preset=preset, in_domain=in_domain, others=others
        )
        frame = correlations_frame(quantities, in_domain=in_domain)
        triples = out_of_domain_correlations(frame, metric, in_domain)
        scatter = scatter_panels(quantities, triples)
        written.append(write_csv(frame, folder / "correlations.csv"))
        note = f"correlations over all runs; out of domain is the mean over the splits {', '.join(others)}"
        _print_note(note, width)
        for y, group in groupby(triples, key=lambda triple: triple[1]):
            lines = [f"{y} with", *(f"  {x}: {pearson}" for x, _, pearson in group)]
            print("\n".join(part for line in lines for part in wrap(line, width)))
    layers, curves = layer_panels(rows, plausibility[0], preset), faithfulness_panels(rows, faithfulness)
    written += write_pictures(rows, scatter, layers, curves, names=names, metric=metric, output=folder)
    if agreement is not None and agreements is not None:
        print(f"\n{agreement_table(agreements, names, agreement, width=width)}")
        if left_out := shared_methods(tested, agreement)[1]:
            _print_note(f"not compared, since some runs have not stored them: {', '.join(left_out)}", width)
        written += write_table_and_figure(folder / "agreement", agreements, agreement_figure(agreements, names))
    if losses is not None:
        written += write_table_and_figure(folder / "trade_off", losses.points, losses.figure(names))
    record_compared(folder, folders)
    print("\n".join(f"written: {file}" for file in written))


def _check_presets(rows: pd.DataFrame, plausibility: Sequence[str], preset: str | None, faithfulness: str) -> None:
    """Raises ValueError if a preset or a metric of attributions is named of which no run has results."""
    measured = rows[rows["preset"] != ""]
    if preset is not None and preset not in set(measured["preset"]):
        raise ValueError(f"no run has the preset {preset!r}: choose one of {_list(measured['preset'])}")
    unknown = [name for name in plausibility if name not in set(measured["metric"])]
    if unknown and tuple(plausibility) != RANKINGS:  # default metrics may be missing: not all runs have rationales
        known = _list(measured["metric"])
        raise ValueError(f"no run has the metric {unknown[0]!r}: the runs have {known or 'no metrics of attributions'}")
    if faithfulness != ER and not faithfulness_panels(rows, faithfulness):
        per_size = measured[measured["metric"].str.fullmatch(PER_SIZE.pattern)]
        raise ValueError(
            f"faithfulness is {faithfulness}, but no run has a normalized metric of this preset for each percentage of "
            f"tokens: choose one of {_list(per_size['preset']) or 'the presets with `aggregate: per_k`'}"
        )


def _list(names: pd.Series) -> str:
    return ", ".join(sorted(names.unique()))


def _print_note(note: str, width: int) -> None:
    print("\n" + "\n".join(wrap(note, width)))
