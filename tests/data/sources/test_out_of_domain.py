"""Test splits of other sources: classes by name, a length limit for each split, evidence that truncation cut."""

import re

import pytest

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.out_of_domain import OutOfDomain, matched_classes, with_classes
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.sources.row_stream import RowStream
from lightning_xai.data.vocabulary import VocabularyEncoder


class Reviews(TextSource):
    """One row for each class and split. The last word is the evidence for the class."""

    def __init__(self, names, *, name="reviews", num_words=3, multilabel=False):
        self.class_names, self.name, self.num_words, self.multilabel = names, name, num_words, multilabel

    def load(self):
        return rows_to_splits(
            {s: [self.row(s, c) for c in range(len(self.class_names))] for s in self.split_names()}, self.multilabel
        )

    def split_names(self):
        return ["train", "validation", "test"]

    def row(self, split, number):
        text = " ".join([f"{self.name}-{split}-{i}" for i in range(self.num_words - 1)] + [f"class{number}"])
        labels = [number] if self.multilabel else number
        rationales = [{"label": number, "spans": [[len(text) - 6, len(text)]]}]
        return {"text": text, "labels": labels, "rationales": rationales, "id": f"{split}-{number}"}


class Streamed(Reviews):
    """The same rows, one at a time."""

    def row_streams(self):
        splits = super().load()
        return {split: RowStream(rows.to_list, rows.column_names) for split, rows in splits.items()}

    def load(self):
        raise AssertionError("a source with streams is not loaded")


WORDS = [
    f"{name}-{split}-{i}" for name in ("own", "reviews") for split in ("train", "validation", "test") for i in range(8)
]


def own(**options):
    return Reviews(["negative", "positive"], name="own", **options)


def test_weak_rationales_are_those_of_the_source_of_each_split():
    weak = Reviews(["negative", "positive"], name="weak")
    weak.rationales_are_weak = True
    source = OutOfDomain(weak, {"other": own(), "lexicon": weak})
    found = {split: source.has_weak_rationales(split) for split in ("train", "test", "other", "lexicon")}
    assert found == {"train": True, "test": True, "other": False, "lexicon": True}


def test_classes_are_matched_by_name_and_rows_of_other_splits_are_not_read():
    source = OutOfDomain(own(), {"other": Reviews(["Positive", "Negative"], name="other")})
    splits = source.load()
    assert list(splits) == ["train", "validation", "test", "other"]
    assert splits["other"]["text"][:] == ["other-test-0 other-test-1 class0", "other-test-0 other-test-1 class1"]
    assert splits["other"]["labels"][:] == [1, 0]
    assert [row[0]["label"] for row in splits["other"]["rationales"]] == [1, 0]
    assert splits["train"].to_list() == own().load()["train"].to_list()


def test_classes_with_other_names_are_named_or_left_out():
    other = Reviews(["NEG", "NEUTRAL", "POS"])
    classes = {"other": {"NEG": "negative", "POS": "positive", "NEUTRAL": None}}
    rows = OutOfDomain(own(), {"other": other}, splits={"other": "validation"}, classes=classes).load()["other"]
    assert rows["labels"][:] == [0, 1]
    assert rows["id"][:] == ["validation-0", "validation-2"]


def test_two_classes_may_be_one():
    assert matched_classes(["bad", "awful", "good"], ["bad", "good"], {"awful": "bad"}, "x") == [0, 0, 1]


def test_a_multi_label_row_loses_only_the_labels_that_are_left_out():
    names = ["a", "b"]
    other = Reviews(["B", "c"], multilabel=True)
    source = OutOfDomain(Reviews(names, multilabel=True, name="own"), {"o": other}, classes={"o": {"c": None}})
    rows = source.load()["o"]
    assert rows["labels"][:] == [[1], []]
    assert [[part["label"] for part in row] for row in rows["rationales"]] == [[1], []]
    check_source(OutOfDomain(Reviews(names, multilabel=True), {"o": other}, classes={"o": {"c": None}}))


def test_it_keeps_the_laws_of_sources():
    check_source(OutOfDomain(own(), {"other": Reviews(["positive", "negative"])}))


def test_rows_that_are_streamed_stay_streams():
    other = Streamed(["positive", "negative"], name="other")
    source = OutOfDomain(Streamed(["negative", "positive"], name="own"), {"other": other})
    streams = source.row_streams()
    assert [row["labels"] for row in streams["other"]] == [1, 0]
    assert [row["text"] for row in streams["train"]] == own().load()["train"]["text"][:]
    assert OutOfDomain(own(), {"other": other}).row_streams() == {}


def test_large_added_splits_lie_on_the_disk_and_leave_no_file(tmp_path, monkeypatch):
    wanted = OutOfDomain(own(), {"other": Reviews(["positive", "negative"])}).load()["other"]
    monkeypatch.setattr("lightning_xai.data.tables.stored_rows.IN_MEMORY", 0)
    source = OutOfDomain(own(), {"other": Reviews(["positive", "negative"])})
    source.work_folder = tmp_path
    found = source.load()["other"]
    assert found.cache_files and not wanted.cache_files and list(tmp_path.iterdir()) == []
    assert found.to_list() == wanted.to_list() and found.features == wanted.features


def test_a_split_has_a_length_of_its_own_and_its_lost_evidence_is_counted(tmp_path):
    others: dict[str, TextSource] = {
        "short": Reviews(["negative", "positive"], num_words=9),
        "long": Reviews(["negative", "positive"]),
    }
    source = OutOfDomain(own(num_words=4), others, max_lengths={"short": 6, "long": 99})
    data = TextDataModule(
        source,
        VocabularyEncoder([*WORDS, "class0", "class1"], max_length=8),
        tune_on_validation=False,
        cache_dir=str(tmp_path),
    )
    data.setup()
    assert data.test_splits == ["test", "short", "long"]
    assert {split: int(data.split(split).lengths.max()) for split in data.test_splits} == {
        "test": 6, "short": 6, "long": 5,
    }  # fmt: skip
    assert data.summary()["short"]["truncated_fraction"] == 1.0
    assert data.summary()["short"]["evidence_kept_fraction"] == 0.0
    assert data.summary()["long"]["evidence_kept_fraction"] == 1.0
    (batch,) = data.test_dataloader()[1]
    assert batch.evidence_cut.any(dim=1).all()


def test_a_limit_above_that_of_the_encoder_keeps_more_tokens(tmp_path):
    source = OutOfDomain(
        own(num_words=9), {"long": Reviews(["negative", "positive"], num_words=9)}, max_lengths={"long": 20}
    )
    data = TextDataModule(
        source, VocabularyEncoder([*WORDS, "class0", "class1"], max_length=6), cache_dir=str(tmp_path)
    )
    assert int(data.split("test").lengths.max()) == 6
    assert int(data.split("long").lengths.max()) == 11
    assert isinstance(data.encoder, VocabularyEncoder) and data.encoder.max_length == 6


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: OutOfDomain(own(), {}), "`others` is empty"),
        (lambda: OutOfDomain(own(), {"test": own()}), "`others` has 'test', which is a split of"),
        (
            lambda: OutOfDomain(own(), {"a": own(multilabel=True)}),
            "a is multi-label, but the training source is single",
        ),
        (lambda: OutOfDomain(own(), {"a": own()}, splits={"b": "test"}), "`splits` has 'b', which is not one of"),
        (lambda: OutOfDomain(own(), {"a": own()}, max_lengths={"b": 9}), "`max_lengths` has 'b'"),
        (lambda: OutOfDomain(own(), {"a": own()}, splits={"a": "dev"}).load(), "has no split 'dev', only train, valid"),
        (lambda: OutOfDomain(own(), {"a": Reviews(["joy"])}).load(), "a has the class 'joy', which is not one of"),
        (
            lambda: OutOfDomain(own(), {"a": Reviews(["joy"])}, classes={"a": {"joy": "good"}}).load(),
            "`classes` for a has 'good', which is not one of ['negative', 'positive']",
        ),
        (lambda: OutOfDomain(own(), {"a": own()}, classes={"a": {"joy": None}}).load(), "`classes` for a has 'joy'"),
        (
            lambda: OutOfDomain(own(), {"a": Reviews(["joy"])}, classes={"a": {"joy": None}}).load(),
            "`classes` for a leaves out all of ['joy']",
        ),
        (
            lambda: OutOfDomain(OutOfDomain(own(), {"a": own()}), {"a": own()}).load(),
            "`others` has 'a', which is a split of",
        ),
        (
            lambda: TextDataModule(
                OutOfDomain(own(), {"a": own()}, max_lengths={"a": 2}), VocabularyEncoder(words=9)
            ).split("a"),
            "`max_lengths` has 2 for a: max_length=2 must be above",
        ),
    ],
)
def test_what_cannot_be_added_is_refused_with_the_remedy(build, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


def test_a_source_inside_decides_the_files_and_the_revision():
    source = OutOfDomain(Planted(num_train=4), {"other": Planted(seed=1)})
    assert source.files() == [] and source.remote_revision() == ""


def test_two_classes_that_become_one_share_their_spans():
    parts = [{"label": 0, "spans": [[4, 6]]}, {"label": 1, "spans": [[0, 3]]}]
    row = with_classes({"text": "a b", "labels": [0, 1], "rationales": parts, "id": "x"}, [0, 0])
    assert row is not None
    assert row["labels"] == [0] and row["rationales"] == [{"label": 0, "spans": [[0, 3], [4, 6]]}]


def test_temporary_files_and_reports_are_those_of_all_sources(tmp_path):
    folders = []

    class Reporting(Reviews):
        def load(self):
            folders.append(self.work_folder)
            return super().load()

        def report(self):
            return ["2 rows left out"]

    source = OutOfDomain(own(), {"other": Reporting(["negative", "positive"])})
    source.work_folder = tmp_path
    source.load()
    assert folders == [tmp_path] and source.report() == ["2 rows left out"]
