"""Table 2: a language model that classifies by a prompt, explained by a scorer with another tokenizer."""

from pathlib import Path
from typing import Any

import pandas as pd

from barkan2024.options import Given
from barkan2024.runs import accuracy, factors, fitted, pretraining, results, tested
from barkan2024.settings import (
    METRICS,
    OTHER,
    data,
    explaining,
    faml,
    paml,
    presets,
    read_part,
)
from barkan2024.show import show

LORA_BELOW = 0.7  # the model is trained if its accuracy is lower
LORA = {"rank": 8, "alpha": 16}


def decoder(given: Given) -> None:
    """Table 2, for Suff and Comp, with the factors of the loss of the first corpus. pAML also pools by the mean."""
    network = given_network(given)
    parts = []
    for header in [header for header in ("Suff", "Comp") if header in given.metrics]:
        for align in ("max", "mean"):
            rows = of_scorer(given, network, header, align)
            rows = rows if align == "max" else rows.replace({"method": {"paml": "paml, mean pooling"}})
            parts.append(rows.assign(column=header))
    rows = pd.concat([*parts, *(of_others(given, network, header) for header in METRICS)], ignore_index=True)
    rows.to_csv(given.out / "decoder_rows.csv", index=False)
    headers = list(dict.fromkeys(part["column"].iloc[0] for part in parts))
    rows = rows[rows["column"].isin(headers)]
    for preset in ("aml", OTHER):
        part = rows[rows["preset"] == preset]
        table = part.pivot_table(index="method", columns="column", values="value")[headers]
        costs = part.groupby("method")[["forward_passes", "backward_passes", "seconds"]].mean()
        show(given, f"Table 2: decoder, preset {preset}", table.join(costs).round(3), f"decoder_{preset}")


def texts(given: Given, **arguments: Any) -> dict[str, Any]:
    n = given.sizes
    numbers = {"train": n["decoder_train"], "validation": n["validation"], "test": n["decoder_texts"]}
    return data(given.prompted, **numbers, **arguments)


def given_network(given: Given) -> str:
    """Returns the path of the language model, or the folder of its run with LoRA if its accuracy is too low."""
    content, seed = read_part(given.decoder), given.seeds[0]
    settings = {"model": {"init_args": {"network": content}}, "data": texts(given), "trainer": {"callbacks": []}}
    right = accuracy(tested(given, "decoder/prompted", seed, settings))
    print(f"decoder: accuracy {right:.3f} with the prompt alone")
    if right >= LORA_BELOW:
        return content["init_args"]["path"]
    content["init_args"]["lora"] = LORA
    settings = {
        "model": {"init_args": {"network": content, "optimizer": {"init_args": {"lr": given.decoder_lr}}}},
        "data": texts(given), "trainer": {"max_epochs": given.sizes["network_epochs"]},
    }  # fmt: skip
    run = fitted(given, "decoder/explained", seed, ["aml.yaml", "aml_teacher.yaml"], settings)
    print(f"decoder: accuracy {accuracy(run):.3f} with LoRA")
    return str(run.path)


def of_scorer(given: Given, network: str, header: str, align: str) -> pd.DataFrame:
    """Returns the rows of pAML and, if tokens are pooled by their maximum, of fAML."""
    settings = pretraining(given, network, header, texts(given, batch_size=4))
    settings["trainer"]["accumulate_grad_batches"] = 5
    arguments = settings["model"]["init_args"]
    arguments["network"] = read_part(given.decoder)
    arguments["optimizer"]["init_args"]["lr"] = 2 * given.scorer_lr  # as in the paper
    arguments["scorer"] = {"path": given.decoder_scorer, "align": align}
    arguments["loss"] = factors(given, given.first, header)
    methods = {"paml": paml()} | ({"faml": faml(header)} if align == "max" else {})
    settings["trainer"]["callbacks"] = [explaining(methods, given.sizes["decoder_texts"]), *presets()]
    rows = results(fitted(given, f"decoder/{METRICS[header]}_{align}", given.seeds[0], ["aml.yaml"], settings))
    return rows[rows["metric"] == METRICS[header]]


def of_others(given: Given, network: str, header: str) -> pd.DataFrame:
    """Returns the rows of a column for the other methods, which one run explains. SIG is summed, in 1 + N passes."""
    methods = read_part("methods/decoder.yaml")["init_args"]["methods"]
    where = {"path": network} if Path(network).is_dir() else {"network": read_part(given.decoder)}
    settings = {
        "model": {"init_args": where},
        "data": texts(given),
        "trainer": {"callbacks": [explaining(methods, given.sizes["decoder_texts"]), *presets()]},
    }
    rows = results(tested(given, "decoder/others", given.seeds[0], settings))
    return rows[rows["metric"] == METRICS[header]].assign(column=header)
