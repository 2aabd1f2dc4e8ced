"""Table 5: seconds for an explanation of a short and of a long text."""

from typing import Any

import pandas as pd

from barkan2024.options import Given
from barkan2024.runs import explained, results, scorer, tested
from barkan2024.settings import data, explaining, faml, method, metric, paml, short, sig, solvex, with_encoder
from barkan2024.show import show
from lightning_xai.attributions.sequential_integrated_gradients import SequentialIntegratedGradients
from lightning_xai.attributions.solvex import Solvex
from lightning_xai.runs.folder import RunFolder

BEAMS = (10, 50, 100)
IG_STEPS = 50


def length_cost(given: Given) -> None:
    """Table 5. SIG and Solvex are not run on long texts: their passes are multiplied by the seconds of a pass."""
    n = given.sizes
    slow = {"sig": sig("l2")} | {f"solvex_{beam}": solvex("comp", beam) for beam in BEAMS}
    short_texts = data(given.corpora[given.first], **_texts(n["timed_texts"]), eval_batch_size=1)
    short_texts = short(short_texts, n["short_tokens"])
    long_texts = with_encoder(
        data(given.long, **_texts(n["timed_long"]), eval_batch_size=1), max_length=n["long_tokens"]
    )
    quick = timed(given, "timed", short_texts, slow, n["timed_texts"])
    long = timed(given, "timed_long", long_texts, {}, n["timed_long"])
    table = pd.DataFrame({"short texts": seconds(quick), "long texts": seconds(long)})
    estimates = estimated(long)
    for name, value in estimates.items():
        table.loc[name, "long texts"] = value
    table["long, how"] = ["passes x cost of a pass" if name in estimates else "measured" for name in table.index]
    tokens = ", ".join(f"{counts(run).mean():.0f}" for run in (quick, long))
    title = f"Table 5: seconds for a text, one at a time; mean numbers of tokens {tokens}"
    show(given, title, table.round(4), "length_cost")


def _texts(number: int) -> dict[str, int]:
    return {"train": 20, "validation": 20, "test": number}


def timed(given: Given, name: str, content: dict[str, Any], slow: dict[str, Any], texts: int) -> RunFolder:
    """Returns a test of AML, DecompX and the methods that tell the cost of a pass, one text at a time."""
    seed = given.seeds[0]
    path = str(scorer(given, given.first, seed, given.overall).path)
    methods = {"paml": paml(path), "faml": faml(given.overall, path), "decompx": method("decompx.DecompX")} | slow
    methods |= {
        "occlusion": method("occlusion.Occlusion", erasure="delete"),
        "integrated_gradients": method("integrated_gradients.IntegratedGradients", num_steps=IG_STEPS),
    }
    preset = {
        "class_path": "lightning_xai.callbacks.evaluation.AttributionEvaluation",
        "init_args": {"preset": "aml", "metrics": [metric("Comp")]},
    }
    settings = {
        "model": {"init_args": {"path": str(explained(given, given.first, seed))}},
        "data": content,
        "trainer": {"callbacks": [explaining(methods, texts), preset, {"class_path": "barkan2024.own_parts.TopWords"}]},
    }
    return tested(given, f"{given.first}/{name}", seed, settings)


def seconds(run: RunFolder) -> pd.Series:
    return results(run).drop_duplicates("method").set_index("method")["seconds"]


def counts(run: RunFolder) -> pd.Series:
    """Returns the number of tokens of each text."""
    return pd.read_csv(run.path / "top_words.csv").drop_duplicates("index")["tokens"]


def estimated(run: RunFolder) -> dict[str, float]:
    """Returns the seconds that SIG and Solvex would need for a text of a run, from the seconds of its passes.

    Occlusion tells the seconds of a forward pass of a text without a token, which is more than that of Solvex's
    shorter texts. IntegratedGradients tells the seconds of a forward and a backward pass.
    """
    rows = results(run).drop_duplicates("method").set_index("method")
    forward = rows.loc["occlusion", "seconds"] / rows.loc["occlusion", "forward_passes"]
    both = rows.loc["integrated_gradients", "seconds"] / IG_STEPS
    tokens = counts(run).tolist()
    sig_rows = [SequentialIntegratedGradients("l2").passes(count, 1).backward for count in tokens]
    values = {"sig": both * sum(sig_rows) / len(tokens)}
    for beam in BEAMS:
        passes = [Solvex("comp", beam).passes(count, 1).forward for count in tokens]
        values[f"solvex_{beam}"] = forward * sum(passes) / len(tokens)
    return values
