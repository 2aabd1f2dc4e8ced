"""Whether the paper's statements hold: fAML leads, pAML is competitive, and the factors follow the metric."""

import numpy as np
import pandas as pd
from scipy import stats

from barkan2024.options import Given
from barkan2024.runs import FACTORS, factors, searched
from barkan2024.settings import HIGHER_IS_BETTER, METRICS, OTHER
from barkan2024.show import show

RANKED_THIRD = 3  # the paper calls pAML competitive because it is generally third


def t_interval(differences: pd.Series) -> tuple[float, float, float]:
    """Returns the mean and its 95 % t-interval; the interval is NaN for one seed."""
    mean, number = differences.mean(), len(differences)
    if number < 2:
        return mean, np.nan, np.nan
    half = stats.t.ppf(0.975, number - 1) * differences.std(ddof=1) / np.sqrt(number)
    return mean, mean - half, mean + half


def say_statements(given: Given, rows: pd.DataFrame) -> None:
    """Prints how far fAML and pAML are ahead, and the factors that were found for each metric."""
    show(given, "Advantage over the best other method, paired over seeds", leads(rows), "statements")
    for corpus in given.corpora:
        show(given, f"Factors of the loss found for {corpus}", chosen_factors(given, corpus), f"{corpus}_factors")
        print(_say_factors(given, corpus))


def leads(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns how far fAML and pAML are ahead of the other method with the best mean, for each column and erasure.

    A positive advantage is good for each metric. A method leads if the interval is above 0, and is behind if it is
    below 0. The best other method is chosen by the same seeds, which is to its advantage. The rank is that of the mean
    among all methods; pAML counts as competitive up to rank 3.
    """
    parts = []
    rows = rows[rows["preset"].isin(["aml", OTHER])]
    for (corpus, texts, preset, column), part in rows.groupby(["corpus", "texts", "preset", "column"], sort=False):
        signed = part.pivot_table(index="seed", columns="method", values="value")
        signed = signed if column in HIGHER_IS_BETTER else -signed
        means = signed.mean().sort_values(ascending=False)
        best = means.drop(["paml", "faml"]).index[0]
        for method in ("faml", "paml"):
            mean, low, high = t_interval(signed[method] - signed[best])
            rank = list(means.index).index(method) + 1
            verdict = "leads" if low > 0 else "behind" if high < 0 else "undecided"
            if method == "paml":
                verdict += ", competitive" if rank <= RANKED_THIRD else ""
            keys = {"corpus": corpus, "texts": texts, "erasure": preset, "column": column, "method": method}
            numbers = {"best_other": best, "advantage": mean, "low": low, "high": high, "rank": rank}
            parts.append(keys | numbers | {"verdict": verdict})
    return pd.DataFrame(parts).round(3)


def chosen_factors(given: Given, corpus: str) -> pd.DataFrame:
    """Returns the factors of the best trial for each metric, and their means over the best quarter of the trials."""
    trials = pd.read_csv(searched(given, corpus) / "trials.csv")
    table = {}
    for header in given.metrics:
        best = factors(given, corpus, header)
        ordered = trials.sort_values(f"val/aml/{METRICS[header]}", ascending=header not in HIGHER_IS_BETTER)
        quarter = ordered.head(max(1, len(trials) // 4))
        means = {f"{name}, best quarter": quarter[f"model.init_args.loss.{name}_weight"].mean() for name in FACTORS}
        table[header] = {name: best[f"{name}_weight"] for name in FACTORS} | means
    return pd.DataFrame(table).T.round(3)


def _say_factors(given: Given, corpus: str) -> str:
    if not {"Suff", "Comp"} <= set(given.metrics):
        return "without the metrics Suff and Comp, nothing is said about the factors"
    comp, suff = factors(given, corpus, "Comp"), factors(given, corpus, "Suff")
    inverse = "higher" if comp["inverse_weight"] > suff["inverse_weight"] else "not higher"
    kept = "higher" if suff["kept_weight"] > comp["kept_weight"] else "not higher"
    return f"{corpus}: inverse_weight is {inverse} for Comp than for Suff; kept_weight is {kept} for Suff than for Comp"
