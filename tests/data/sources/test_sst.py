"""The treebank: brackets, the phrase heuristic on worked trees, and the corpus where it is at hand."""

import pytest

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
    lines = "(4 (2 a) (3 (3 good) (2 film)))\n(2 (2 a) (2 film))\n(0 (2 a) (1 (1 bad) (2 film)))\n"
    for stem in ("train", "dev", "test"):
        (tmp_path / f"{stem}.txt").write_text(lines)
    return tmp_path


def test_binary_drops_neutral_sentences(folder):
    rows = SST(str(folder)).load()["validation"]
    assert (rows["labels"][:], rows["id"][:]) == ([1, 0], ["dev-0", "dev-2"])


def test_five_classes_keep_the_tree_labels(folder):
    assert SST(str(folder), binary=False).load()["train"]["labels"][:] == [4, 2, 0]


def test_missing_file_is_named(folder):
    (folder / "dev.txt").unlink()
    with pytest.raises(ValueError, match="dev.txt is missing"):
        SST(str(folder)).load()


def test_corpus_has_the_published_sizes_and_rationales_of_whole_words(shared):
    splits = SST(str(shared / "data" / "sst")).load()
    assert {split: len(rows) for split, rows in splits.items()} == {
        "train": 6920,
        "validation": 872,
        "test": 1821,
    }  # E4
    lengths = {split: [len(text.split(" ")) for text in rows["text"]] for split, rows in splits.items()}
    kept = {split: sum(length >= 6 for length in part) for split, part in lengths.items()}
    assert kept == {"train": 6579, "validation": 848, "test": 1776}  # madsen2022, Table 3: what min_words=6 leaves
    for row in splits["validation"].to_list():
        text = f" {row['text']} "
        ends = [(begin, end) for rationale in row["rationales"] for begin, end in rationale["spans"]]
        assert all(text[begin] == text[end + 1] == " " for begin, end in ends)


def test_short_sentences_are_left_out(folder):
    (folder / "dev.txt").write_text("(4 (2 a) (3 good))\n(4 (2 a) (3 (3 good) (2 film)))\n")
    assert SST(str(folder), min_words=3).load()["validation"]["id"][:] == ["dev-1"]
