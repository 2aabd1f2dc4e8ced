"""The tables of Barkan et al. (2024) at any size: pAML, fAML and other methods.

    python tests/benchmarks/aml_tables.py --corpora sst=data/sst.yaml emotion=emotion.yaml [--parts main words] ...

A data file is one of configs/data or your own. The defaults are sizes for some hours on two cores. The same command
continues what was killed, and prints the tables of finished runs again; tables and numbers are also CSV files in --out.
Parts and their tables: main (1, with statements), ablations (4), options (pAML with other options), transfer (3),
length_cost (5), words (6), decoder (2). A first look in a few CPU minutes:

    python tests/benchmarks/aml_tables.py --out runs/look --parts main ablations options transfer length_cost words \\
        --corpora a=data/planted.yaml b=data/planted.yaml --transfer data/planted.yaml --long data/planted.yaml \\
        --network network/tiny_bert.yaml --network_lr 5e-3 --network_epochs 6 --scorer_lr 3e-3 --start explained \\
        --seeds 0 1 --trials 4 --texts 8 --short_texts 6 --timed_texts 6 --timed_long 4 --transfer_texts 8 \\
        --transfer_tuned 4 --long_tokens 120
"""

from barkan2024.ablations import ablations, options
from barkan2024.decoder import decoder
from barkan2024.length_cost import length_cost
from barkan2024.main_tables import main_tables
from barkan2024.options import given_options
from barkan2024.settings import METRICS
from barkan2024.transfer import transfer
from barkan2024.words import words

FUNCTIONS = {
    "main": main_tables, "ablations": ablations, "options": options, "transfer": transfer,
    "length_cost": length_cost, "words": words, "decoder": decoder,
}  # fmt: skip


def main() -> None:
    given = given_options(__doc__, list(METRICS))
    for part in given.parts:
        FUNCTIONS[part](given)


if __name__ == "__main__":
    main()
