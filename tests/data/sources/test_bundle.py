"""Bundled documents: classes and evidence are those of the snippets inside."""

import pytest

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.sources.bundle import Bundle, join_snippets
from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.vocabulary import VocabularyEncoder


class Snippets(TextSource):
    """Short texts that name their source, split and class."""

    class_names = ["bad", "good"]

    def __init__(self, name, num_filler=20):
        self.name = name
        self.num_filler = num_filler

    def load(self):
        return rows_to_splits(
            {
                split: [
                    {"text": f"{self.name} {split} {c} {i}", "labels": c, "id": str(i)}
                    for i in range(9)
                    for c in (0, 1)
                ]
                for split in ("train", "validation", "test")
            }
        )

    def load_filler(self):
        return {s: [f"{self.name} {s} x {i}" for i in range(self.num_filler)] for s in ("train", "validation", "test")}


def bundle(**options):
    return Bundle([Snippets("a"), Snippets("b")], **{"num_train": 40, "num_validation": 5, "num_test": 5} | options)


def test_snippets_are_joined_and_their_places_kept():
    text, rationales = join_snippets([(1, "good"), (None, "filler"), (1, "fine"), (0, "bad")], " | ")
    assert text == "good | filler | fine | bad"
    assert rationales == [{"label": 0, "spans": [[23, 26]]}, {"label": 1, "spans": [[0, 4], [16, 20]]}]


def test_kinds_are_named_by_source_and_class():
    assert bundle().class_names == ["a/bad", "a/good", "b/bad", "b/good"]


def test_kinds_of_one_source_are_its_classes():
    assert Bundle([Snippets("a")]).class_names == ["bad", "good"]


def test_labels_and_spans_are_those_of_the_snippets():
    for split, rows in bundle(separator=" | ").load().items():
        for row in rows:
            pieces = row["text"].split(" | ")
            assert len(set(pieces)) == len(pieces)
            assert {piece.split()[1] for piece in pieces} == {split}
            wanted: dict[int, list[str]] = {}
            for piece in pieces:
                source, _, label, _ = piece.split()
                if label != "x":
                    wanted.setdefault(2 * "ab".index(source) + int(label), []).append(piece)
            marked = {r["label"]: [row["text"][begin:end] for begin, end in r["spans"]] for r in row["rationales"]}
            assert marked == wanted
            assert row["labels"] == sorted(wanted)


def test_numbers_of_snippets_are_in_range():
    rows = bundle(evidence_per_document=(1, 3), filler_per_document=(2, 2), separator="|").load()["train"]
    numbers = {(sum(" x " not in p for p in row["text"].split("|")), row["text"].count(" x ")) for row in rows}
    assert numbers == {(1, 2), (2, 2), (3, 2)}


def test_filler_is_added_up_to_the_number_of_words():
    rows = bundle(words_per_document=(60, 80)).load()["train"]
    assert all(60 <= len(text.split()) < 84 for text in rows["text"])


def test_training_documents_may_be_shorter():
    splits = bundle(words_per_document=(60, 80), train_words_per_document=(20, 24)).load()
    assert all(20 <= len(text.split()) < 28 for text in splits["train"]["text"])
    assert splits["test"].to_list() == bundle(words_per_document=(60, 80)).load()["test"].to_list()


def test_too_little_filler_is_refused():
    with pytest.raises(ValueError, match="its split has only 40 filler snippets"):
        bundle(words_per_document=(1000, 1000)).load()


def test_filler_may_come_from_other_sources():
    texts = bundle(filler_sources=[Snippets("c")], filler_per_document=(2, 2), separator="|").load()["train"]["text"]
    pieces = [piece for text in texts for piece in text.split("|")]
    assert {piece.split()[0] for piece in pieces if " x " in piece} == {"c"}
    assert {piece.split()[0] for piece in pieces if " x " not in piece} == {"a", "b"}


def test_without_filler_sources_the_sources_give_the_filler():
    documents, same = bundle().load(), bundle(filler_sources=[Snippets("a"), Snippets("b")]).load()
    assert {split: rows.to_list() for split, rows in documents.items()} == {s: r.to_list() for s, r in same.items()}


def test_every_source_is_prepared():
    prepared = []

    class Prepared(Snippets):
        def prepare(self):
            prepared.append(self.name)

    Bundle([Prepared("a")], filler_sources=[Prepared("b")]).prepare()
    assert prepared == ["a", "b"]


def test_sources_of_one_name_are_refused():
    with pytest.raises(ValueError, match="different names"):
        Bundle([Snippets("a"), Snippets("a")])


def test_multilabel_source_is_refused():
    with pytest.raises(ValueError, match="'bundle' is multi-label"):
        Bundle([bundle()])


def test_same_seed_gives_the_same_documents_however_many():
    few, many = bundle(num_train=3).load()["train"], bundle().load()["train"]
    assert few.to_list() == many.to_list()[:3]
    assert few["text"] != bundle(num_train=3, seed=1).load()["train"]["text"]


@pytest.mark.slow
def test_document_of_six_thousand_tokens_flows_into_a_batch():
    source = Bundle(
        [Snippets("a", num_filler=2000)], words_per_document=(6000, 6000), num_train=2, num_validation=1, num_test=1
    )
    data = TextDataModule(source, VocabularyEncoder(max_length=6100))
    data.setup("fit")
    batch = next(iter(data.train_dataloader()))
    assert batch.inputs.input_ids.shape[1] >= 6002
    assert (batch.rationale.scores.sum(dim=-1)[batch.rationale.target_mask] % 4 == 0).all()


def test_laws():
    check_source(bundle())
