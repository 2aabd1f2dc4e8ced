"""Table 4, terms of the loss left out, and pAML with other options than the default; both with one seed."""

import pandas as pd

from barkan2024.options import Given
from barkan2024.runs import results, scorer, scorer_data
from barkan2024.settings import METRICS, OTHER, read_part, with_encoder
from barkan2024.show import show
from lightning_xai.runs.folder import RunFolder

LEFT_OUT = {"": {}, "Xinv": {"inverse_weight": 0.0}, "Xpred": {"kept_weight": 0.0}}
LOSSES = {
    "inverse: probability": {"inverse": "probability"},
    "inverse: negative entropy": {"inverse": "negative_entropy"},
    "size: mean (L1)": {"size": "mean"},
    "fill: zero": {"fill": "zero"},
}  # fmt: skip


def ablations(given: Given) -> None:
    """Table 4: fAML and pAML without the term `inverse` (Xinv) or `kept` (Xpred). The other factors stay."""
    headers = [header for header in ("Suff", "Comp") if header in given.metrics]
    table: dict[tuple[str, str], dict[str, float]] = {}
    for header in headers:
        for suffix, loss in LEFT_OUT.items():
            name = f"ablations/{suffix.lower()}_{METRICS[header]}" if suffix else ""
            run = scorer(given, given.ablated, given.seeds[0], header, name=name, loss=loss)
            for method, value in values(run, header, "aml").items():
                table.setdefault((header, "aml"), {})[f"{method}{suffix}"] = value
            for method, value in values(run, header, OTHER).items():
                table.setdefault((header, OTHER), {})[f"{method}{suffix}"] = value
    frame = pd.DataFrame(table).sort_index().round(3)
    show(given, f"Table 4: terms left out, {given.ablated}, seed {given.seeds[0]}", frame, "ablations")


def options(given: Given) -> None:
    """pAML on A-C with other options than the default. The part decoder shows the pooling of tokens by their mean."""
    corpus, seed, header = given.ablated, given.seeds[0], given.overall
    start = "explained" if given.start == "pretrained" else "pretrained"
    runs = {"default": scorer(given, corpus, seed, header)}
    for name, loss in LOSSES.items():
        file = f"options/{name.replace(': ', '_').replace(' ', '_').replace('(', '').replace(')', '')}"
        runs[name] = scorer(given, corpus, seed, header, name=file, loss=loss, tuned=False)
    runs[f"start: {start}"] = scorer(given, corpus, seed, header, name=f"options/{start}", start=start, tuned=False)
    if read_part(given.corpora[corpus])["init_args"]["encoder"]["class_path"].endswith("TokenizerEncoder"):
        pad = with_encoder(scorer_data(given, corpus), fill="pad")
        runs["fill: pad"] = scorer(given, corpus, seed, header, name="options/fill_pad", fill=pad, tuned=False)
    else:
        print("without the option `fill: pad`, which only the encoder TokenizerEncoder has")
    table = {
        name: {preset: values(run, header, preset)["paml"] for preset in ("aml", OTHER)} for name, run in runs.items()
    }
    show(
        given, f"{header} of pAML with other options, {corpus}, seed {seed}", pd.DataFrame(table).T.round(3), "options"
    )


def values(run: RunFolder, header: str, preset: str) -> dict[str, float]:
    """Returns the value of a column's metric for each method of a run."""
    rows = results(run)
    rows = rows[(rows["metric"] == METRICS[header]) & (rows["preset"] == preset)]
    return dict(zip(rows["method"], rows["value"], strict=True))
