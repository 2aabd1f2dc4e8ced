"""The treebank: brackets, phrase scores of worked trees, copies from the hub, and the corpus itself."""

import shutil

import huggingface_hub
import pytest
from datasets import Dataset, DatasetDict

from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.sst import SST, Tree, leaves, parse_tree, phrase_scores


def tree(label, children=()):
    """Returns a tree from the oracle's notation: (label, children), where a leaf is its label."""
    return Tree(label, tuple(child if isinstance(child, Tree) else Tree(child, word="w") for child in children))


# oracle E4
@pytest.mark.parametrize(
    "worked, scores",
    [
        (tree(3, [2, tree(3, [2, 3])]), [0, 0, 0.5]),
        (tree(4, [tree(2, [2, 2]), tree(3, [3, 2])]), [1, 1, 1, 1]),
        (tree(1, [tree(2, [2, 2]), tree(1, [tree(2, [2, 2]), tree(3, [2, 3])])]), [0, 0, 0, 0, 0, 0.5]),
        (tree(0, [tree(1, [2, 1]), tree(2, [2, 2])]), [1, 1, 1, 1]),
        (tree(1, [tree(1, [2, 2]), 2]), [0.5, 0.5, 0]),
    ],
)
def test_phrase_scores_of_worked_trees(worked, scores):
    assert phrase_scores(worked) == scores


def test_brackets_become_a_tree():
    assert parse_tree("(3 (2 very) (4 (3 good) (2 .)))\n") == Tree(
        3, (Tree(2, word="very"), Tree(4, (Tree(3, word="good"), Tree(2, word="."))))
    )


def test_no_break_space_stays_inside_its_word():
    assert leaves(parse_tree("(3 (2 1\u00a01\\/2) (2 x))")) == ["1\u00a01\\/2", "x"]


def test_open_brackets_are_refused():
    with pytest.raises(ValueError, match="do not close"):
        parse_tree("(3 (2 very)")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "trees"
    folder.mkdir()
    lines = "(4 (2 a) (3 (3 good) (2 film)))\n(2 (2 a) (2 film))\n(0 (2 a) (1 (1 bad) (2 film)))\n"
    for stem in ("train", "dev", "test"):
        (folder / f"{stem}.txt").write_text(lines.replace("film", stem))
    return folder


def test_binary_drops_neutral_sentences(folder):
    rows = SST(str(folder)).load()["validation"]
    assert (rows["labels"][:], rows["id"][:]) == ([1, 0], ["dev-0", "dev-2"])


def test_five_classes_keep_the_tree_labels(folder):
    assert SST(str(folder), binary=False).load()["train"]["labels"][:] == [4, 2, 0]


def test_missing_file_is_named(folder):
    (folder / "dev.txt").unlink()
    with pytest.raises(ValueError, match="dev.txt is missing; the folder must hold"):
        SST(str(folder)).load()


def hub_table(folder):
    """Returns the trees of a treebank's files as the hub has them."""
    stems = {"train": "train", "validation": "dev", "test": "test"}
    trees = {split: (folder / f"{stem}.txt").read_text().splitlines() for split, stem in stems.items()}
    return DatasetDict({split: Dataset.from_dict({"ptb_tree": lines}) for split, lines in trees.items()})


def rows_of(path, **options):
    source = SST(str(path), **options)
    source.prepare()
    return {split: rows.to_list() for split, rows in source.load().items()}


def parquet_copy(folder, path):
    """Writes a data set as the hub's revision "refs/convert/parquet" has it: a folder for each configuration."""
    other = Dataset.from_dict({"sentence": ["a good film"], "label": [0.9]})
    for config, table in (("default", dict.fromkeys(hub_table(folder), other)), ("ptb", hub_table(folder))):
        for split, rows in table.items():
            (path / config / split).mkdir(parents=True)
            rows.to_parquet(path / config / split / "0000.parquet")
    return path


def test_saved_copy_gives_the_rows_of_the_files(folder, tmp_path):
    hub_table(folder).save_to_disk(tmp_path / "saved")
    assert rows_of(tmp_path / "saved") == rows_of(folder)


@pytest.mark.slow
def test_downloaded_parquet_files_give_the_rows_of_the_files(folder, tmp_path):
    copy = parquet_copy(folder, tmp_path / "copy")
    assert rows_of(copy, binary=False, min_words=2) == rows_of(folder, binary=False, min_words=2)


@pytest.mark.slow
def test_hub_gives_the_rows_of_the_files(folder, tmp_path, monkeypatch):
    """The cache of downloads is made by hand, and tests are offline, so nothing else can be fetched."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    repository, commit = tmp_path / "hub" / "datasets--stanfordnlp--sst", "5" * 40
    parquet_copy(folder, repository / "snapshots" / commit)
    shutil.rmtree(repository / "snapshots" / commit / "default")  # so that reading it would fail
    (repository / "refs" / "refs" / "convert").mkdir(parents=True)
    (repository / "refs" / "refs" / "convert" / "parquet").write_text(commit)
    assert rows_of("stanfordnlp/sst") == rows_of(folder)


def test_data_set_that_cannot_be_fetched_is_named_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="stanfordnlp/sst: neither a folder nor .* or give a local copy"):
        SST().prepare()


def test_configuration_without_trees_is_named_with_the_remedy(tmp_path):
    part = Dataset.from_dict({"sentence": ["a film"], "label": [0.5]})
    DatasetDict(dict.fromkeys(("train", "validation", "test"), part)).save_to_disk(tmp_path / "saved")
    with pytest.raises(ValueError, match="no column 'ptb_tree' .* only sentence, label; .* configuration 'ptb'"):
        SST(str(tmp_path / "saved")).load()


@pytest.mark.slow  # reads 12,000 trees
def test_corpus_has_the_published_sizes_and_rationales_of_whole_words(shared):
    splits = SST(str(shared / "data" / "sst")).load()
    assert {split: len(rows) for split, rows in splits.items()} == {
        "train": 6920,
        "validation": 872,
        "test": 1821,
    }  # E4
    lengths = {split: [len(text.split(" ")) for text in rows["text"]] for split, rows in splits.items()}
    kept = {split: sum(length >= 6 for length in part) for split, part in lengths.items()}
    assert kept == {"train": 6579, "validation": 848, "test": 1776}  # Madsen et al. (2022), Table 3
    for row in splits["validation"].to_list():
        text = f" {row['text']} "
        ends = [(begin, end) for rationale in row["rationales"] for begin, end in rationale["spans"]]
        assert all(text[begin] == text[end + 1] == " " for begin, end in ends)


def test_short_sentences_are_left_out(folder):
    (folder / "dev.txt").write_text("(4 (2 a) (3 good))\n(4 (2 a) (3 (3 good) (2 film)))\n")
    assert SST(str(folder), min_words=3).load()["validation"]["id"][:] == ["dev-1"]


def test_laws(folder):
    check_source(SST(str(folder)))
