"""bAbI: the published form read, and stories made up whose supporting sentences are exact."""

import random
import re
from typing import Any

import pytest

from lightning_xai.data.sources.babi import BAbI, read_stories
from lightning_xai.data.sources.babi_stories import Question, Task, generate_story

TASKS: list[Task] = [1, 2, 3]
STORY = (
    "1 Mary moved to the garden.\n2 John got the milk.\n3 Where is Mary?\tgarden\t1\n"
    "4 Mary went to the office.\n5 Where is Mary? \toffice\t4\n"
    "1 John got the milk.\n2 John moved to the kitchen.\n3 Where is the milk?\tkitchen\t1 2\n"
)
# the sentences of the published files, release 1.2, tasks 1 to 3
SENTENCE = re.compile(
    r"(?P<actor>Mary|John|Daniel|Sandra) (?:(?P<move>journeyed|moved|travelled|went)(?: back)? to"
    r"|(?P<get>got|grabbed|took|picked up)|(?P<drop>dropped|put down|discarded|left|let go of)) "
    r"the (?P<thing>\w+)(?: there)?\."
)
NAMES = ["bathroom", "bedroom", "garden", "hallway", "kitchen", "office", "apple", "football", "milk"]
QUESTION = re.compile(r"Where (?:is|was) (?:the )?(?P<subject>\w+)(?: before the (?P<place>\w+))?\?")


def solved(question: Question, sentences: list[str]) -> str | None:
    """Returns the answer that follows from the sentences, or None."""
    actor_places: dict[str, list[str]] = {}  # actor -> places in their order
    holders: dict[str, str] = {}
    visited: dict[str, list[str]] = {}  # object -> places in their order

    def bring(thing: str, places: list[str]) -> None:
        known = visited.setdefault(thing, [])
        known += [place for place in places[-1:] if known[-1:] != [place]]

    for sentence in sentences:
        told = SENTENCE.fullmatch(sentence)
        assert told is not None, sentence
        actor, thing = told["actor"], told["thing"]
        if told["move"]:
            actor_places.setdefault(actor, []).append(thing)
            for held in (held for held, holder in holders.items() if holder == actor):
                bring(held, [thing])
        elif told["get"]:
            holders[thing] = actor
            bring(thing, actor_places.get(actor, []))
        else:
            holders.pop(thing, None)
    asked = QUESTION.fullmatch(question.text)
    assert asked is not None, question.text
    places = (visited | actor_places).get(asked["subject"], [])
    if asked["place"] is None:
        return places[-1] if places else None
    return places[-2] if len(places) > 1 and places[-1] == asked["place"] else None


def made_up(task: Task, count: int = 100) -> list[Question]:
    return [q for i in range(count) for q in generate_story(task, random.Random(i))]


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


@pytest.mark.parametrize("task", TASKS)
def test_supporting_sentences_alone_answer_a_made_up_question(task):
    for question in made_up(task):
        assert len(question.supporting) == task
        assert solved(question, [question.sentences[i] for i in question.supporting]) == question.answer


@pytest.mark.parametrize("task", TASKS)
def test_no_supporting_sentence_of_a_made_up_question_can_be_spared(task):
    for question in made_up(task, 40):
        for spared in question.supporting:
            rest = [question.sentences[i] for i in question.supporting if i != spared]
            assert solved(question, rest) != question.answer


@pytest.mark.parametrize("task", TASKS)
def test_whole_story_gives_the_same_answer(task):
    for question in made_up(task):
        assert solved(question, question.sentences) == question.answer


@pytest.mark.parametrize("task", TASKS)
def test_made_up_sentences_have_the_published_form(task):
    for question in made_up(task, 40):
        matches = [SENTENCE.fullmatch(sentence) for sentence in question.sentences]
        assert all(match is not None and match["thing"] in NAMES for match in matches), question
        assert QUESTION.fullmatch(question.text)


@pytest.mark.parametrize("task", TASKS)
def test_every_answer_is_about_as_frequent(task):
    answers = [question.answer for question in made_up(task, 300)]
    assert all(0.1 < answers.count(place) / len(answers) < 0.24 for place in NAMES[:6])


def test_stories_of_task_3_are_as_long_as_the_published_ones():
    # 308 words with the question and its mark, Table 1 of Madsen et al. (2022)
    lengths = [len(re.findall(r"\w+|[.?]", " ".join([*q.sentences, q.text]))) for q in made_up(3, 400)]
    assert sum(lengths) / len(lengths) == pytest.approx(308, rel=0.05)


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


@pytest.mark.parametrize("task", TASKS)
def test_supporting_sentences_alone_answer_a_published_question(shared, task):
    path = next((shared / "data" / "babi").glob(f"qa{task}_*test.txt"))
    questions = [question for story in read_stories(path) for question in story]
    assert all(solved(q, [q.sentences[i] for i in q.supporting]) == q.answer for q in questions)


@pytest.mark.parametrize("task", TASKS)
def test_words_of_made_up_stories_are_in_the_published_ones(shared, task):
    def words(questions):
        return {word.strip(".?") for q in questions for text in [*q.sentences, q.text] for word in text.split()}

    path = next((shared / "data" / "babi").glob(f"qa{task}_*train.txt"))
    assert words(made_up(task)) <= words(question for story in read_stories(path) for question in story)
