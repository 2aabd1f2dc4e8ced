"""bAbI tasks 1 to 3: short stories of who goes where with what, and the sentences from which an answer follows."""

from __future__ import annotations

import random
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from datasets import DatasetDict

from lightning_xai.data.sources.base import TextSource, rows_to_dataset, split_rows
from lightning_xai.functional.choices import require_choices

Task = Literal[1, 2, 3]
ACTORS = ["Daniel", "John", "Mary", "Sandra"]
PLACES = ["bathroom", "bedroom", "garden", "hallway", "kitchen", "office"]
OBJECTS = ["apple", "football", "milk"]
MOVE_VERBS = ["journeyed to", "moved to", "travelled to", "went to"]
GET_VERBS = ["got", "grabbed", "took"]
DROP_VERBS = ["dropped", "put down"]
QUESTIONS_PER_STORY = 5
ASKING = {2: 0.5, 3: 0.1}  # chance of a question after a sentence; by the latter a story has the published length


class Question(NamedTuple):
    """A question, and what was told before it."""

    sentences: list[str]  # in their order, without earlier questions
    supporting: list[int]  # positions in `sentences` of those from which the answer follows
    text: str
    answer: str
    line: int  # of the question in its story, from 1


def read_stories(path: Path) -> list[list[Question]]:
    """Returns the questions of every story of a file of release 1.2.

    A line is "number sentence", or "number question<TAB>answer<TAB>numbers of the supporting lines"; a number 1 begins
    a story.

    Raises:
        ValueError: a line has another form, or is supported by a line that told nothing; names file and line.
    """
    stories: list[list[Question]] = []
    told: dict[int, str] = {}  # line of the story -> its sentence
    with path.open(encoding="utf-8") as lines:
        for row, line in enumerate(lines, start=1):
            number, _, rest = line.rstrip("\n").partition(" ")
            if not number.isdecimal() or not rest.strip() or (not stories and number != "1"):
                raise ValueError(f"{path}, line {row}: {line[:60]!r} has no number of a story's line, from 1 on, first")
            if number == "1":
                stories.append([])
                told = {}
            fields = [field.strip() for field in rest.split("\t")]
            if len(fields) == 1:
                told[int(number)] = fields[0]
                continue
            positions = {line_number: position for position, line_number in enumerate(told)}
            support = fields[2].split() if len(fields) == 3 else []
            if not support or not all(s.isdecimal() and int(s) in positions for s in support):
                raise ValueError(
                    f"{path}, line {row}: {line[:60]!r} is not a question, an answer and the numbers of earlier "
                    "sentences, separated by tabs"
                )
            supporting = sorted(positions[int(s)] for s in support)
            stories[-1].append(Question([*told.values()], supporting, fields[0], fields[1], int(number)))
    return stories


class _World:
    """Where everyone and everything is, and which sentences told so; sentences are named by their position."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.sentences: list[str] = []
        self.actor_places = {actor: chance.choice(PLACES) for actor in ACTORS}  # not told at first
        self.object_places = {thing: chance.choice(PLACES) for thing in OBJECTS}
        self.holders: dict[str, str] = {}  # object -> who has it now
        self.gets: dict[str, int] = {}  # object -> sentence in which it was last taken
        self.moves: dict[str, list[tuple[int, str]]] = {actor: [] for actor in ACTORS}  # (sentence, place)
        self.journeys: dict[str, tuple[str, str, list[int]]] = {}  # object -> (from, to, supporting sentences)

    def tell(self, actor: str, verbs: list[str], thing: str) -> None:
        self.sentences.append(f"{actor} {self.chance.choice(verbs)} the {thing}.")

    def move(self) -> None:
        actor = self.chance.choice(ACTORS)
        place = self.chance.choice([p for p in PLACES if p != self.actor_places[actor]])
        now = len(self.sentences)
        for thing in (thing for thing, holder in self.holders.items() if holder == actor):
            self.object_places[thing] = place
            self.journeys.pop(thing, None)
            if self.moves[actor]:  # else nobody was told where the object comes from
                before, origin = self.moves[actor][-1]
                self.journeys[thing] = (origin, place, sorted([before, self.gets[thing], now]))
        self.actor_places[actor] = place
        self.moves[actor].append((now, place))
        self.tell(actor, MOVE_VERBS, place)

    def handle(self) -> None:
        """Somebody takes an object that lies where they are, or drops one; if that is impossible, somebody moves."""
        free = [thing for thing in OBJECTS if thing not in self.holders]
        possible = [(a, t) for t in free for a in ACTORS if self.actor_places[a] == self.object_places[t]]
        possible += [(holder, thing) for thing, holder in self.holders.items()]
        if not possible:
            return self.move()
        actor, thing = self.chance.choice(possible)
        if self.holders.pop(thing, None) is None:
            self.holders[thing] = actor
            self.gets[thing] = len(self.sentences)
            self.tell(actor, GET_VERBS, thing)
        else:
            self.tell(actor, DROP_VERBS, thing)

    def questions(self, task: Task) -> list[tuple[str, str, list[int]]]:
        """Returns all questions (text, answer, supporting sentences) of the task that can be answered now."""
        if task == 1:
            return [(f"Where is {a}?", moves[-1][1], [moves[-1][0]]) for a, moves in self.moves.items() if moves]
        if task == 2:
            carried = [(thing, self.moves[holder][-1]) for thing, holder in self.holders.items() if self.moves[holder]]
            return [(f"Where is the {t}?", place, sorted([move, self.gets[t]])) for t, (move, place) in carried]
        return [(f"Where was the {t} before the {to}?", origin, s) for t, (origin, to, s) in self.journeys.items()]


def generate_story(task: Task, chance: random.Random) -> list[Question]:
    """Returns the questions of a random story, whose supporting sentences are exactly those that the answer needs."""
    world = _World(chance)
    asked: list[Question] = []
    since = 0  # sentences since the last question
    while len(asked) < QUESTIONS_PER_STORY:
        if task == 1 or chance.random() < 1 / 3:
            world.move()
        else:
            world.handle()
        since += 1
        asks = since == 2 if task == 1 else since > 2 and chance.random() < ASKING[task]
        possible = world.questions(task) if asks else []
        if possible:
            text, answer, supporting = chance.choice(possible)
            line = len(world.sentences) + len(asked) + 1
            asked.append(Question([*world.sentences], supporting, text, answer, line))
            since = 0
    return asked


def story_spans(question: Question) -> list[list[int]]:
    """Returns character spans of the supporting sentences in the sentences joined by spaces."""
    begins = [0]
    for sentence in question.sentences:
        begins.append(begins[-1] + len(sentence) + 1)
    return [[begins[i], begins[i + 1] - 1] for i in question.supporting]


class BAbI(TextSource):
    """Questions about a story, which is the main text; the question is the pair, the answer the class.

    The rationale of the right answer is the supporting sentences. The published files are read from `data_dir`, or
    stories are made up. Those name the published actors, places and objects in published sentences, two before each
    question of task 1 and three or more before one of tasks 2 and 3, but everything starts at a random place, so that
    answers are more even. Stories are never divided: no story has questions in two splits.

    Args:
        task: 1, "Where is Mary?"; 2, "Where is the milk?"; 3, "Where was the milk before the office?", which need
            one, two and three sentences.
        data_dir: folder of the published files, "en" with 1,000 training questions a task or "en-10k", with
            qa{task}_*train.txt and qa{task}_*test.txt, and perhaps qa{task}_*valid.txt; None makes up stories.
        validation_fraction: of the published training stories, which validates where there is no file for it.
        num_train, num_validation, num_test: questions that are made up.
        seed: of stories and of that division.

    Raises:
        ValueError: at once if a number is out of range; on loading if a file is missing or a line is wrong.

    Reference: Weston et al. (2015), "Towards AI-Complete Question Answering: A Set of Prerequisite Toy Tasks", arXiv
        1502.05698, Sec. 3.
    Differs: Madsen et al. (2022), arXiv 2110.08412, divide 10,000 training questions into 8,500 and 1,500 one by one,
        so that a story is in both; and they have a class for every word, not for every answer.
    """

    name = "babi"

    def __init__(
        self,
        task: Task = 1,
        data_dir: str | None = None,
        validation_fraction: float = 0.15,
        num_train: int = 8500,
        num_validation: int = 1500,
        num_test: int = 1000,
        seed: int = 0,
    ) -> None:
        require_choices({"task": Task}, {"task": task})
        if not 0 < validation_fraction < 1:
            raise ValueError(f"validation_fraction is {validation_fraction}: give a fraction between 0 and 1")
        self.sizes = {"train": num_train, "validation": num_validation, "test": num_test}
        for split, size in self.sizes.items():
            if size < 1:
                raise ValueError(f"num_{split} is {size}: give at least 1")
        self.task = task
        self.data_dir = Path(data_dir) if data_dir is not None else None
        self.validation_fraction = validation_fraction
        self.seed = seed

    @cached_property
    def class_names(self) -> list[str]:
        if self.data_dir is None:
            return list(PLACES)
        return sorted({q.answer for stories in self._stories.values() for story in stories for q in story})

    @cached_property
    def _stories(self) -> dict[str, list[list[Question]]]:
        if self.data_dir is None:
            return {split: self._generated(split, size) for split, size in self.sizes.items()}
        found = {"train": read_stories(self._file("train")), "test": read_stories(self._file("test"))}
        if any(self.data_dir.glob(f"qa{self.task}_*valid.txt")):
            return found | {"validation": read_stories(self._file("valid"))}
        stories = found["train"]
        parts = split_rows(len(stories), self.validation_fraction, 0.0, self.seed)
        return found | {split: [stories[i] for i in parts[split]] for split in ("train", "validation")}

    def _file(self, part: str) -> Path:
        pattern = f"qa{self.task}_*{part}.txt"
        paths = sorted(self.data_dir.glob(pattern))
        if len(paths) != 1:
            found = ", ".join(path.name for path in paths) or "none"
            raise ValueError(f"data_dir {self.data_dir} must hold one file {pattern}, it has {found}")
        return paths[0]

    def _generated(self, split: str, size: int) -> list[list[Question]]:
        stories = []
        for i in range(-(-size // QUESTIONS_PER_STORY)):
            story = generate_story(self.task, random.Random(f"{self.seed} {self.task} {split} {i}"))
            stories.append(story[: size - i * QUESTIONS_PER_STORY])
        return stories

    def load(self) -> DatasetDict:
        return DatasetDict(
            {
                split: rows_to_dataset(
                    [
                        self._row(question, f"{i}-{question.line}")
                        for i, story in enumerate(stories)
                        for question in story
                    ]
                )
                for split, stories in ((split, self._stories[split]) for split in ("train", "validation", "test"))
            }
        )

    def _row(self, question: Question, name: str) -> dict[str, Any]:
        label = self.class_names.index(question.answer)
        return {
            "text": " ".join(question.sentences),
            "text_pair": question.text,
            "labels": label,
            "rationales": [{"label": label, "spans": story_spans(question)}],
            "id": name,
        }
