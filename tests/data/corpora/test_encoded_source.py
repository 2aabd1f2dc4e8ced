"""Corpora of a source: their key, damaged and changed files, views, processes, and memory maps in loader processes."""

import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from lightning_xai.data.corpora.corpus import Corpus
from lightning_xai.data.corpora.encoded_source import EncodedSource
from lightning_xai.data.corpora.encoded_split import EncodedSplit
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.sources.files import Files
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.sources.row_stream import RowStream
from lightning_xai.data.vocabulary import VocabularyEncoder

WORDS = VocabularyEncoder(words=95)
OLD = 1_600_000_000  # modification time of files that are not being written


def planted(folder, encoder=None, **arguments) -> EncodedSource:
    sizes = {"num_train": 12, "num_validation": 4, "num_test": 4}
    return EncodedSource(Planted(**{**sizes, **arguments}), encoder or VocabularyEncoder(words=95), str(folder))


def written(folder, text="w1 w2,0\nw3,1\nw1,0\n", name="train.csv", time=OLD) -> Path:
    file = folder / name
    file.write_text(f"text,label\n{text}")
    os.utime(file, (time, time))
    return file


def files(folder, file) -> EncodedSource:
    source = Files({"train": str(file)}, validation_fraction=0, class_names=["0", "1"])
    return EncodedSource(source, VocabularyEncoder(words=95), str(folder / "cache"))


@pytest.mark.slow
def test_the_same_settings_give_one_corpus_and_others_another(tmp_path):
    first = planted(tmp_path).corpus("train").folder
    assert planted(tmp_path).corpus("train").folder == first
    others = [
        planted(tmp_path, seed=1), planted(tmp_path, VocabularyEncoder(words=94)),
        planted(tmp_path, VocabularyEncoder(words=95, max_length=9)),
        planted(tmp_path, VocabularyEncoder(words=95, fill="pad")),
    ]  # fmt: skip
    folders = {first, *(other.corpus("train").folder for other in others), planted(tmp_path).corpus("test").folder}
    assert len(folders) == 6


def test_truncation_and_padding_that_were_used_before_do_not_change_the_key(tmp_path):
    used = VocabularyEncoder(words=95)
    used.encode({"text": "w1"})
    used.tokenizer(["w1", "w2 w3"], padding=True, truncation=True, max_length=3)
    assert planted(tmp_path, used).corpus("test").folder == planted(tmp_path).corpus("test").folder


def test_a_changed_byte_is_encoded_anew_and_a_touched_file_is_not(tmp_path):
    first = files(tmp_path, written(tmp_path)).corpus("train")
    touched = files(tmp_path, written(tmp_path, time=OLD + 1)).corpus("train")
    assert touched.folder == first.folder
    same_size = files(tmp_path, written(tmp_path, "w1 w4,0\nw3,1\nw1,0\n", time=OLD + 2)).corpus("train")
    assert same_size.folder != first.folder and same_size.example(0)["text"] == "w1 w4"


def test_only_verifying_sees_a_change_that_keeps_size_and_time(tmp_path):
    source = files(tmp_path, written(tmp_path))
    first = source.corpus("train").folder
    (tmp_path / "train.csv").write_text("text,label\nw1 w4,0\nw3,1\nw1,0\n")
    os.utime(tmp_path / "train.csv", (OLD, OLD))
    assert files(tmp_path, tmp_path / "train.csv").corpus("train").folder == first
    again = files(tmp_path, tmp_path / "train.csv")
    again.verify = True
    assert again.corpus("train").example(0)["text"] == "w1 w4"


class Changing(TextSource):
    """Rows of a file that changes while it is read."""

    class_names = ["no", "yes"]

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self):
        text = Path(self.path).read_text()
        Path(self.path).write_text(text + " w1")
        return rows_to_splits({"train": [{"text": text, "labels": 0, "id": "a"}]})


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("w1")
    data = EncodedSource(Changing(str(tmp_path / "a.txt")), WORDS, str(tmp_path / "cache"))
    with pytest.raises(ValueError, match="the files of Changing changed while they were read: wait until"):
        data.corpus("train")
    assert not list((tmp_path / "cache").glob("corpora/*/manifest.json"))


@pytest.mark.parametrize("damage", ["cut shard", "no manifest", "damaged manifest", "no rows"])
def test_a_damaged_corpus_is_made_anew_and_its_readers_are_not_disturbed(tmp_path, damage, capsys):
    reader = planted(tmp_path).corpus("train")
    wanted = [reader.example(i) for i in range(12)]
    shard = next(reader.folder.glob("tokens-*"))
    if damage == "cut shard":
        copy = reader.folder / "copy"
        copy.write_bytes(shard.read_bytes()[:-9])  # a cut file under the name of the mapped one
        copy.rename(shard)
    elif damage == "no rows":
        (reader.folder / "rows.arrow").unlink()
    elif damage == "no manifest":
        (reader.folder / "manifest.json").unlink()
    else:
        (reader.folder / "manifest.json").write_text("{")
    again = planted(tmp_path).corpus("train")
    assert [again.example(i) for i in range(12)] == wanted == [reader.example(i) for i in range(12)]
    assert "the stored encoding of a corpus is damaged, so the corpus is encoded again" in capsys.readouterr().out


def test_verifying_finds_a_flipped_bit(tmp_path):
    corpus = planted(tmp_path).corpus("train")
    assert corpus.is_whole()
    shard = next(corpus.folder.glob("tokens-*"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    (corpus.folder / "flipped").write_bytes(content)
    (corpus.folder / "flipped").rename(shard)
    assert not Corpus(corpus.folder).is_whole()
    again = planted(tmp_path)
    again.verify = True
    assert again.corpus("train").is_whole()


def test_a_corpus_that_is_removed_stays_readable(tmp_path):
    corpus = planted(tmp_path).corpus("train")
    shutil.rmtree(corpus.folder)
    assert corpus.take([0, 11]).lengths.tolist() == corpus.lengths[[0, 11]].tolist()
    assert corpus.example(11)["id"] == "train-11"
    with pytest.raises(ValueError, match="was removed, so start the command again"):
        pickle.loads(pickle.dumps(corpus))


@pytest.mark.parametrize(("size", "num_rows"), [(2, 2), (3, 12), (11, 12)])
def test_a_selection_below_a_quarter_is_encoded_alone_and_a_larger_one_is_a_view(tmp_path, size, num_rows):
    index = np.sort(np.random.default_rng(0).permutation(12)[:size])
    corpus = planted(tmp_path).corpus("train", index)
    assert len(corpus) == num_rows
    whole = planted(tmp_path).corpus("train")
    for number in index.tolist():
        assert corpus.example(int(np.searchsorted(corpus.index, number))) == whole.example(number)


def test_both_kinds_of_selection_have_the_same_hash_and_tokens(tmp_path):
    index = np.array([2, 7])
    alone, whole = planted(tmp_path).corpus("train", index), planted(tmp_path).corpus("train")
    assert len(alone) == 2 and len(whole) == 12
    one, view = EncodedSplit(alone, index), EncodedSplit(whole, index)
    assert one.hash() == view.hash() and one.summary() == view.summary()
    assert one[[1, 0]].table.input_ids.tolist() == view[[1, 0]].table.input_ids.tolist()
    assert one.labels([0, 1]) == view.labels([0, 1]) and one.unknown_fraction() == view.unknown_fraction()


class Streamed(TextSource):
    """Rows that are yielded one at a time; loading them at once is an error."""

    class_names = ["no", "yes"]

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows

    def load(self):
        raise AssertionError("the rows must be streamed")

    def row_streams(self):
        rows = lambda: ({"text": f"w{i % 9}", "labels": i % 2, "id": str(i)} for i in range(self.num_rows))  # noqa: E731
        return dict.fromkeys(("train", "validation", "test"), RowStream(rows, ["text", "labels", "id"]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*are also in split")
def test_a_source_may_yield_its_rows(tmp_path):
    data = EncodedSource(Streamed(5000), WORDS, str(tmp_path))
    corpus = data.corpus("train")
    assert len(corpus) == 5000 and corpus.example(4999) == {"text": "w4", "labels": 1, "id": "4999"}
    part = data.corpus("train", np.array([3, 4998]))
    assert [part.example(i)["id"] for i in range(2)] == ["3", "4998"]


def test_a_learned_vocabulary_is_built_once_and_belongs_to_its_rows(tmp_path):
    def learned(index) -> list[str]:
        data = planted(tmp_path, VocabularyEncoder())
        data.fit_encoder(np.array(index))
        assert isinstance(data.encoder, VocabularyEncoder)
        return data.encoder.words or []

    first = learned([0, 1])
    assert learned([0, 1]) == first != learned([2, 3])
    assert len(list((tmp_path / "words").glob("*.json"))) == 2


def test_settings_without_a_fingerprint_are_refused_by_name(tmp_path):
    class Local(Planted):
        def load(self):
            return super().load() if tmp_path else {}

    for source, message in (
        (Local(), r"Local uses variables of the function around it \(tmp_path\), so its code cannot be hashed"),
        (Handles(handle=open(os.devnull)), "Handles.handle is of type TextIOWrapper, which cannot be hashed"),
    ):
        with pytest.raises(ValueError, match=message):
            EncodedSource(source, WORDS, str(tmp_path)).corpus("train")


class Handles(Planted):
    def __init__(self, handle):
        super().__init__()


def test_class_names_and_columns_are_known_without_loading(tmp_path):
    file = written(tmp_path)
    data = files(tmp_path, file)
    data.source.init_args["kwargs"].pop("class_names")
    wanted = data.class_names
    again = files(tmp_path, file)
    again.source.init_args["kwargs"].pop("class_names")
    assert again.class_names == wanted == ["0", "1"] and again._loaded is None
    assert again.table.columns == {"train": ["text", "labels", "id"]} and not again.table.has_rationales


def test_the_manifest_says_what_the_corpus_holds(tmp_path):
    manifest = json.loads((planted(tmp_path).corpus("test").folder / "manifest.json").read_text())
    assert manifest["rows"] == 4 and manifest["columns"] == ["text", "labels", "rationales", "id"]
    assert manifest["class_names"] == ["class0", "class1"] and sum(manifest["class_counts"].values()) == 4
    assert manifest["source"]["init_args"]["num_test"] == 4 and manifest["split"] == "test"
