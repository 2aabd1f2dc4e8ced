"""Table 1: all methods under five metrics, with the erasure of the paper and with the other one."""

import pandas as pd

from barkan2024.options import Given
from barkan2024.runs import accuracy, explained, results, scorer, tested
from barkan2024.settings import (
    METRICS,
    OTHER,
    data,
    explaining,
    faml,
    other_methods,
    paml,
    presets,
    short,
    sig,
    solvex,
)
from barkan2024.show import show
from barkan2024.statements import say_statements
from lightning_xai.runs.folder import RunFolder

ALL, SHORT = "all", "short"


def main_tables(given: Given) -> None:
    """Table 1 and its statements. It is printed again with each seed, as soon as its runs are there."""
    rows: list[pd.DataFrame] = []
    for number, seed in enumerate(given.seeds, start=1):
        for corpus in given.corpora:
            print(f"{corpus}, seed {seed}: accuracy {network_accuracy(given, corpus, seed):.3f}")
            rows.append(of_all_texts(given, corpus, seed).assign(texts=ALL, corpus=corpus, seed=seed))
            rows.append(of_short_texts(given, corpus, seed).assign(texts=SHORT, corpus=corpus, seed=seed))
            table = pd.concat(rows, ignore_index=True)
            table.to_csv(given.out / "main.csv", index=False)
        for (corpus, texts), part in table.groupby(["corpus", "texts"], sort=False):
            for preset in ("aml", "aml_code", OTHER):
                title = f"Table 1: {corpus}, {texts} texts, preset {preset}, mean over {number} seeds"
                show(given, title, table_1(part[part["preset"] == preset], given.metrics), f"{corpus}_{texts}_{preset}")
    say_statements(given, table)


def table_1(rows: pd.DataFrame, headers: list[str]) -> pd.DataFrame:
    """Returns the mean of each metric for each method, with passes and seconds for an example, the fewest first."""
    values = rows.pivot_table(index="method", columns="column", values="value")[headers]
    by_method = rows.groupby("method")
    costs = by_method[["forward_passes", "backward_passes", "seconds"]].mean()
    order = costs[["forward_passes", "backward_passes"]].sum(axis=1).sort_values(kind="stable").index
    return by_method[["pass_group"]].first().join(values).join(costs).loc[order].round(3)


def network_accuracy(given: Given, corpus: str, seed: int) -> float:
    return accuracy(RunFolder(explained(given, corpus, seed)))


def of_all_texts(given: Given, corpus: str, seed: int) -> pd.DataFrame:
    """Returns the rows of pAML and fAML, whose scorer has the metric of the column, and of the other methods."""
    own = {header: results(scorer(given, corpus, seed, header)) for header in given.metrics}
    n = given.sizes["texts"]
    settings = {
        "model": {"init_args": {"path": str(explained(given, corpus, seed))}},
        "data": data(given.corpora[corpus], train=given.sizes["scorer_train"], validation=n, test=n),
        "trainer": {"callbacks": [explaining(other_methods(), n), *presets()]},
    }
    others = results(tested(given, f"{corpus}/others", seed, settings))
    parts = [_column(rows, header) for header in own for rows in (own[header], others)]
    return pd.concat(parts, ignore_index=True)


def of_short_texts(given: Given, corpus: str, seed: int) -> pd.DataFrame:
    """Returns the rows of all methods, with SIG and Solvex, on short texts. Solvex has one metric in each column."""
    methods = other_methods() | {"sig": sig("l2"), "solvex_comp": solvex("comp"), "solvex_suff": solvex("suff")}
    for header in given.metrics:
        path = str(scorer(given, corpus, seed, header).path)
        methods |= {f"paml_{METRICS[header]}": paml(path), f"faml_{METRICS[header]}": faml(header, path)}
    rows = results(short_run(given, corpus, seed, methods))
    return pd.concat([_column(_of_metric(rows, header), header) for header in given.metrics], ignore_index=True)


def short_run(given: Given, corpus: str, seed: int, methods: dict) -> RunFolder:
    n = given.sizes["short_texts"]
    content = data(given.corpora[corpus], train=given.sizes["scorer_train"], validation=n, test=n)
    top_words = {"class_path": "barkan2024.own_parts.TopWords"}
    settings = {
        "model": {"init_args": {"path": str(explained(given, corpus, seed))}},
        "data": short(content, given.sizes["short_tokens"]),
        "trainer": {"callbacks": [explaining(methods, n), *presets(), top_words]},
    }
    return tested(given, f"{corpus}/short", seed, settings)


def _of_metric(rows: pd.DataFrame, header: str) -> pd.DataFrame:
    """Returns the rows of the methods that serve a column, with names for all columns."""
    solvex = "solvex_suff" if header in ("Suff", "A-S") else "solvex_comp"
    names = {f"paml_{METRICS[header]}": "paml", f"faml_{METRICS[header]}": "faml", solvex: "solvex"}
    special = rows["method"].str.startswith(("paml_", "faml_", "solvex_"))
    kept = rows[~special | rows["method"].isin(names)]
    return kept.assign(method=kept["method"].replace(names))


def _column(rows: pd.DataFrame, header: str) -> pd.DataFrame:
    return rows[rows["metric"] == METRICS[header]].assign(column=header)
