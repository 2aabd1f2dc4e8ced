"""bAbI: the published files are read, and generated stories have the sizes that were asked for."""

from typing import Any

import pytest

from lightning_xai.data.sources.babi import BAbI, read_stories
from lightning_xai.data.sources.babi_stories import BAbITask
from lightning_xai.data.sources.laws import check_source

TASKS: list[BAbITask] = [1, 2, 3]
STORY = (
    "1 Mary moved to the garden.\n2 John got the milk.\n3 Where is Mary?\tgarden\t1\n"
    "4 Mary went to the office.\n5 Where is Mary? \toffice\t4\n"
    "1 John got the milk.\n2 John moved to the kitchen.\n3 Where is the milk?\tkitchen\t1 2\n"
)


@pytest.fixture
def folder(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"qa1_single-supporting-fact_{part}.txt").write_text(STORY)
    return tmp_path


def test_question_has_the_sentences_told_before_it(folder):
    first, second = read_stories(folder / "qa1_single-supporting-fact_train.txt")[0]
    assert first.sentences == ["Mary moved to the garden.", "John got the milk."]
    assert second.sentences == [*first.sentences, "Mary went to the office."]


def test_supporting_lines_become_positions_among_sentences(folder):
    stories = read_stories(folder / "qa1_single-supporting-fact_train.txt")
    assert [question.supporting for story in stories for question in story] == [[0], [2], [0, 1]]


def test_rationale_is_the_supporting_sentences(folder):
    row = BAbI(1, str(folder)).load()["test"][2]
    spans = row["rationales"][0]["spans"]
    assert [row["text"][begin:end] for begin, end in spans] == ["John got the milk.", "John moved to the kitchen."]


def test_classes_are_the_answers(folder):
    source = BAbI(1, str(folder))
    rows = source.load()["test"]
    assert source.class_names == ["garden", "kitchen", "office"]
    assert (rows["labels"][:], rows["text_pair"][1]) == ([0, 2, 1], "Where is Mary?")
    assert [rationale[0]["label"] for rationale in rows["rationales"]] == rows["labels"][:]


def test_validation_file_is_read_where_there_is_one(folder):
    (folder / "qa1_valid.txt").write_text("1 Mary moved to the garden.\n2 Where is Mary?\tgarden\t1\n")
    assert {name: len(rows) for name, rows in BAbI(1, str(folder)).load().items()} == {
        "train": 3, "validation": 1, "test": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    "line, message",
    [
        ("Mary moved.\n", "line 2"),
        ("2 Where is Mary?\tgarden\n", "line 2"),
        ("2 Where is Mary?\tgarden\t7\n", "line 2"),
        ("2 Where is Mary?\tgarden\tone\n", "line 2"),
    ],
)
def test_wrong_line_is_named(tmp_path, line, message):
    path = tmp_path / "qa1_train.txt"
    path.write_text(f"1 Mary moved to the garden.\n{line}")
    with pytest.raises(ValueError, match=f"qa1_train.txt, {message}"):
        read_stories(path)


def test_missing_file_is_named(folder):
    with pytest.raises(ValueError, match=r"qa2_\*train.txt"):
        BAbI(2, str(folder)).load()


def test_wrong_task_is_refused():
    task: Any = 4
    with pytest.raises(ValueError, match="task is 4"):
        BAbI(task)


def test_sizes_are_as_asked_for():
    rows = BAbI(1, num_train=12, num_validation=7, num_test=5).load()
    assert {name: len(part) for name, part in rows.items()} == {"train": 12, "validation": 7, "test": 5}


def test_seed_decides_the_stories():
    def texts(seed):
        return BAbI(2, num_train=10, num_validation=5, num_test=5, seed=seed).load()["train"]["text"][:]

    assert texts(0) == texts(0) != texts(1)


def test_splits_are_different_stories():
    rows = BAbI(2, num_train=50, num_validation=50, num_test=50).load()
    texts = [set(part["text"]) for part in rows.values()]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]


@pytest.mark.parametrize("task", TASKS)
def test_published_form_has_1000_questions_and_divides_stories(shared, task):
    rows = BAbI(task, str(shared / "data" / "babi")).load()
    assert {name: len(part) for name, part in rows.items()} == {"train": 850, "validation": 150, "test": 1000}
    starts = [{text.split(".")[0] + text.split(".")[1] for text in rows[name]["text"]} for name in rows]
    assert len(starts[0]) <= 170 and len(starts[1]) <= 30  # five questions share the beginning of their story


def test_laws(folder):
    check_source(BAbI(1, str(folder), validation_fraction=0.5))
