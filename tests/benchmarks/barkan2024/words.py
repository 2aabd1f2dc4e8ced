"""Table 6: the top three words of some texts."""

import pandas as pd

from barkan2024.main_tables import of_short_texts
from barkan2024.options import Given
from barkan2024.settings import METRICS
from barkan2024.show import show
from lightning_xai.runs.folder import RunFolder


def words(given: Given) -> None:
    """Table 6: the short texts of the part main with asterisks around the top three words, AML's for A-C."""
    seed, metric = given.seeds[0], METRICS[given.overall]
    rows = []
    for number, corpus in enumerate(given.corpora):
        of_short_texts(given, corpus, seed)  # makes the run
        table = pd.read_csv(RunFolder.of(given.out, f"{corpus}/short", seed).path / "top_words.csv")
        names = {
            f"paml_{metric}": "paml", f"faml_{metric}": "faml", "sig": "sig", "decompx": "decompx",
            "solvex_comp": "solvex",
        }  # fmt: skip
        table = table[table["method"].isin(names)].replace({"method": names})
        share = len(range(number, given.sizes["shown"], len(given.corpora)))
        table = table[table["index"].isin(sorted(set(table["index"]))[:share])]
        rows.append(table.assign(corpus=corpus).sort_values("index", kind="stable"))
    shown = pd.concat(rows).set_index(["corpus", "index", "predicted", "method"])[["text"]]
    with pd.option_context("display.max_colwidth", None):
        show(given, f"Table 6: top three words, seed {seed}", shown, "words")
