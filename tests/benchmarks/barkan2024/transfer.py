"""Table 3: agreement with the rationales of another corpus, by the top 25 tokens."""

from typing import Any

import pandas as pd

from barkan2024.options import Given
from barkan2024.runs import accuracy, explained, results, scorer, tested
from barkan2024.settings import data, explaining, faml, method, paml, read_part, sig, with_encoder
from barkan2024.show import show

SCORES = {"Macro F1": "rationale/token_f1", "Micro F1": "rationale/token_micro_f1"}


def transfer(given: Given) -> None:
    """Table 3: a network of the first corpus and its scorer for A-C explain other texts.

    fAML and SIG explain fewer texts. The second table has all methods on these texts.
    """
    seed, n = given.seeds[0], given.sizes
    path = str(scorer(given, given.first, seed, given.overall).path)
    methods = {"paml": paml(path), "decompx_reverse": method("decompx_reverse.DecompXReverse")}
    for name, more, texts in (
        ("transfer", {}, n["transfer_texts"]),
        ("transfer_tuned", {"faml": faml(given.overall, path), "sig": sig("sum")}, n["transfer_tuned"]),
    ):
        table, right = f1_scores(given, name, more | methods, texts)
        show(given, f"Table 3: agreement with rationales, {texts} texts, accuracy {right:.3f}", table, name)


def f1_scores(given: Given, name: str, methods: dict[str, Any], texts: int) -> tuple[pd.DataFrame, float]:
    """Returns the F1 scores of each method, and the network's accuracy on these texts."""
    shipped = read_part("presets/aml.yaml")
    metrics = [one for one in shipped["init_args"]["metrics"] if one["class_path"].endswith("DiscreteRationale")]
    shipped["init_args"] |= {"metrics": metrics}
    content = data(given.transfer, train=texts, validation=texts, test=texts)
    settings = {
        "model": {
            "init_args": {
                "path": str(explained(given, given.first, given.seeds[0])), "network_classes": given.transfer_classes,
            }
        },
        "data": with_encoder(content, max_length=given.sizes["long_tokens"]),
        "trainer": {"callbacks": [explaining(methods, texts), shipped]},
    }  # fmt: skip
    run = tested(given, f"{given.first}/{name}", given.seeds[0], settings)
    rows = results(run)
    chosen = rows[rows["metric"].isin(SCORES.values())]
    table = chosen.pivot_table(index="method", columns="metric", values="value", sort=False)[list(SCORES.values())]
    table.columns = list(SCORES)
    seconds = chosen.groupby("method")[["num_examples", "seconds"]].mean()
    return table.join(seconds).sort_values("Macro F1", ascending=False).round(3), accuracy(run)
