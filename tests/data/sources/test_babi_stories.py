"""Generated bAbI stories: their supporting sentences are exactly those that an independent solver needs."""

import random
import re

import pytest

from lightning_xai.data.sources.babi import read_stories
from lightning_xai.data.sources.babi_stories import BAbITask, Question, generate_story

TASKS: list[BAbITask] = [1, 2, 3]
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


def made_up(task: BAbITask, count: int = 100) -> list[Question]:
    return [q for i in range(count) for q in generate_story(task, random.Random(i))]


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
