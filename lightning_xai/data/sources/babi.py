"""bAbI tasks 1 to 3: questions about short stories. The rationales are the sentences that give the answer."""

from __future__ import annotations

import random
from functools import cached_property
from pathlib import Path
from typing import Any

from datasets import DatasetDict

from lightning_xai.data.sources.babi_stories import PLACES, QUESTIONS_PER_STORY, BAbITask, Question, generate_story
from lightning_xai.data.sources.base import (
    TextSource,
    rationales_of,
    require_fractions,
    rows_to_splits,
    split_rows,
)
from lightning_xai.functional.choices import require_choices


def read_stories(path: Path) -> list[list[Question]]:
    """Returns the questions of every story in a file of bAbI release 1.2.

    A line has the form "number sentence" or "number question<TAB>answer<TAB>numbers of the supporting lines". A line
    with the number 1 begins a new story.

    Raises:
        ValueError: a line has another form, or refers to supporting lines that are not earlier sentences of its story.
            The message names the line.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "qa1_train.txt")
        ...     _ = path.write_text("1 Mary moved to the garden.\\n2 Where is Mary?\\tgarden\\t1\\n")
        ...     read_stories(path)[0][0].answer
        'garden'
    """
    stories: list[list[Question]] = []
    sentences: dict[int, str] = {}  # line number in the story -> sentence
    with path.open(encoding="utf-8") as lines:
        for row, line in enumerate(lines, start=1):
            number, _, rest = line.rstrip("\n").partition(" ")
            if not number.isdecimal() or not rest.strip() or (not stories and number != "1"):
                raise ValueError(
                    f"{path}, line {row}: {line[:60]!r} must be the number of the line in its story, a space and a "
                    "text; the first line of a story has number 1"
                )
            if number == "1":
                stories.append([])
                sentences = {}
            fields = [field.strip() for field in rest.split("\t")]
            if len(fields) == 1:
                sentences[int(number)] = fields[0]
                continue
            positions = {line_number: position for position, line_number in enumerate(sentences)}
            support = fields[2].split() if len(fields) == 3 else []
            if not support or not all(s.isdecimal() and int(s) in positions for s in support):
                raise ValueError(
                    f"{path}, line {row}: {line[:60]!r} must be a question, its answer, and the line numbers of the "
                    "earlier sentences that support the answer, separated by tabs"
                )
            supporting = sorted(positions[int(s)] for s in support)
            stories[-1].append(Question([*sentences.values()], supporting, fields[0], fields[1], int(number)))
    return stories


def story_spans(question: Question) -> list[list[int]]:
    """Returns the character spans of the supporting sentences in the story's text (its sentences, joined by spaces).

    Example:
        >>> story_spans(Question(["It rains.", "Mary left."], [1], "Who left?", "Mary", line=3))
        [[10, 20]]
    """
    begins = [0]
    for sentence in question.sentences:
        begins.append(begins[-1] + len(sentence) + 1)
    return [[begins[i], begins[i + 1] - 1] for i in question.supporting]


class BAbI(TextSource):
    """Questions about stories. In each row, `text_pair` is the question, and the class is the answer.

    `text` consists of the sentences of the story that precede the question. The rationale of the right answer consists
    of the supporting sentences. All questions about a story are in the same split.

    The published files are read from `data_dir`. Without `data_dir`, stories are generated from the actors, places,
    objects and sentence patterns of the published stories. In task 1, two new sentences precede each question; in tasks
    2 and 3, at least three do. Actors and objects start at random places, so the answers are more evenly distributed
    than in the published stories.

    Args:
        task: kind of question: 1 for "Where is Mary?", 2 for "Where is the milk?", 3 for "Where was the milk before the
            office?". The answers follow from one, two and three sentences, respectively.
        data_dir: folder of the published files: "en" (1,000 training questions per task) or "en-10k" (10,000). It must
            contain qa{task}_*train.txt and qa{task}_*test.txt, and may contain qa{task}_*valid.txt. If None, stories
            are generated.
        validation_fraction: fraction of the published training stories that become the validation split, if the folder
            has no qa{task}_*valid.txt.
        num_train, num_validation, num_test: numbers of questions to generate for the three splits.
        seed: seed of the generated stories, and of the random choice of validation stories.

    Raises:
        ValueError: `task` is unknown, or a number is out of range. `load` raises the error if a file is missing, or if
            a line has the wrong form.

    Example:
        >>> source = BAbI(task=1, num_train=5, num_validation=5, num_test=5)
        >>> row = source.load()["train"][0]
        >>> row["text_pair"], source.class_names[row["labels"]]
        ('Where is John?', 'bedroom')

    Reference: Weston et al. (2015), "Towards AI-Complete Question Answering: A Set of Prerequisite Toy Tasks", arXiv
        1502.05698, Sec. 3.
    Differs: Madsen et al. (2022), arXiv 2110.08412, divide the 10,000 training questions, not the stories, into 8,500
        for training and 1,500 for validation, so questions of one story can be in both splits. They use every word as a
        class, not only the answers.
    """

    name = "babi"

    def __init__(
        self,
        task: BAbITask = 1,
        data_dir: str | None = None,
        validation_fraction: float = 0.15,
        num_train: int = 8500,
        num_validation: int = 1500,
        num_test: int = 1000,
        seed: int = 0,
    ) -> None:
        require_choices({"task": BAbITask}, {"task": task})
        require_fractions(validation_fraction=validation_fraction)
        self.sizes = {"train": num_train, "validation": num_validation, "test": num_test}
        for split, size in self.sizes.items():
            if size < 1:
                raise ValueError(f"num_{split} is {size}: give at least 1")
        self.task: BAbITask = task
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
        return self._published(self.data_dir)

    def _published(self, folder: Path) -> dict[str, list[list[Question]]]:
        train, test = self._read(folder, "train"), self._read(folder, "test")
        if any(folder.glob(f"qa{self.task}_*valid.txt")):
            return {"train": train, "validation": self._read(folder, "valid"), "test": test}
        parts = split_rows(len(train), self.validation_fraction, 0.0, self.seed)
        return {split: [train[i] for i in parts[split]] for split in ("train", "validation")} | {"test": test}

    def _read(self, folder: Path, part: str) -> list[list[Question]]:
        pattern = f"qa{self.task}_*{part}.txt"
        paths = sorted(folder.glob(pattern))
        if len(paths) != 1:
            names = ", ".join(path.name for path in paths) or "none"
            raise ValueError(
                f"data_dir {folder} must hold exactly one file that matches {pattern}; files that match: {names}"
            )
        return read_stories(paths[0])

    def _generated(self, split: str, size: int) -> list[list[Question]]:
        stories = []
        for i in range(-(-size // QUESTIONS_PER_STORY)):
            story = generate_story(self.task, random.Random(f"{self.seed} {self.task} {split} {i}"))
            stories.append(story[: size - i * QUESTIONS_PER_STORY])
        return stories

    def load(self) -> DatasetDict:
        return rows_to_splits({split: self._rows(self._stories[split]) for split in ("train", "validation", "test")})

    def _rows(self, stories: list[list[Question]]) -> list[dict[str, Any]]:
        return [self._row(question, f"{i}-{question.line}") for i, story in enumerate(stories) for question in story]

    def _row(self, question: Question, name: str) -> dict[str, Any]:
        label = self.class_names.index(question.answer)
        return {
            "text": " ".join(question.sentences),
            "text_pair": question.text,
            "labels": label,
            "rationales": rationales_of(label, story_spans(question)),
            "id": name,
        }
