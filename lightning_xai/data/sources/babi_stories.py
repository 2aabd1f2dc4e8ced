"""Generates random bAbI stories of actors who carry objects around, with questions and their supporting sentences."""

from __future__ import annotations

import random
from typing import Literal, NamedTuple

BAbITask = Literal[1, 2, 3]
ACTORS = ["Daniel", "John", "Mary", "Sandra"]
PLACES = ["bathroom", "bedroom", "garden", "hallway", "kitchen", "office"]
OBJECTS = ["apple", "football", "milk"]
MOVE_VERBS = ["journeyed to", "moved to", "travelled to", "went to"]
GET_VERBS = ["got", "grabbed", "took"]
DROP_VERBS = ["dropped", "put down"]
QUESTIONS_PER_STORY = 5
# task -> probability that a question follows a sentence, if at least three sentences have followed the last question.
# With 0.1, the stories of task 3 are as long as the published ones
QUESTION_CHANCE = {2: 0.5, 3: 0.1}


class Question(NamedTuple):
    """A question, and the sentences of its story that precede it.

    Example:
        >>> question = Question(["Mary went to the office."], [0], "Where is Mary?", "office", line=2)
        >>> [question.sentences[i] for i in question.supporting]
        ['Mary went to the office.']
    """

    sentences: list[str]  # the story before this question; earlier questions are left out
    supporting: list[int]  # indices into `sentences`: the sentences that the answer follows from
    text: str
    answer: str
    line: int  # line number of the question in its story, counted from 1


class _World:
    """The state of a story: where the actors and objects are, and the indices of the sentences that tell this."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.sentences: list[str] = []
        # the story does not tell where actors and objects are at the start
        self.actor_places = {actor: chance.choice(PLACES) for actor in ACTORS}
        self.object_places = {thing: chance.choice(PLACES) for thing in OBJECTS}
        self.holders: dict[str, str] = {}  # object -> the actor who carries it now
        self.gets: dict[str, int] = {}  # object -> index of the sentence in which the object was last taken
        # actor -> moves; a move is (index of its sentence, new place)
        self.moves: dict[str, list[tuple[int, str]]] = {actor: [] for actor in ACTORS}
        # object -> its last journey: (from, to, indices of the supporting sentences)
        self.journeys: dict[str, tuple[str, str, list[int]]] = {}

    def tell(self, actor: str, verbs: list[str], thing: str) -> None:
        """Adds the sentence "{actor} {verb} the {thing}." to the story, with a random verb."""
        self.sentences.append(f"{actor} {self.chance.choice(verbs)} the {thing}.")

    def move(self) -> None:
        """Moves a random actor, and all objects that this actor carries, to another random place."""
        actor = self.chance.choice(ACTORS)
        place = self.chance.choice([p for p in PLACES if p != self.actor_places[actor]])
        sentence = len(self.sentences)
        for thing in (thing for thing, holder in self.holders.items() if holder == actor):
            self.object_places[thing] = place
            self.journeys.pop(thing, None)
            if self.moves[actor]:  # without an earlier move, the story does not tell where the object was before
                earlier, origin = self.moves[actor][-1]
                self.journeys[thing] = (origin, place, sorted([earlier, self.gets[thing], sentence]))
        self.actor_places[actor] = place
        self.moves[actor].append((sentence, place))
        self.tell(actor, MOVE_VERBS, place)

    def take_or_drop(self) -> None:
        """Lets a random actor take an object at the actor's place, or drop an object; if nobody can, moves an actor."""
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

    def questions(self, task: BAbITask) -> list[tuple[str, str, list[int]]]:
        """Returns the task's questions that the story answers, as (text, answer, indices of supporting sentences)."""
        if task == 1:
            return [(f"Where is {a}?", moves[-1][1], [moves[-1][0]]) for a, moves in self.moves.items() if moves]
        if task == 2:
            carried = [(thing, self.moves[holder][-1]) for thing, holder in self.holders.items() if self.moves[holder]]
            return [(f"Where is the {t}?", place, sorted([move, self.gets[t]])) for t, (move, place) in carried]
        return [(f"Where was the {t} before the {to}?", origin, s) for t, (origin, to, s) in self.journeys.items()]


def generate_story(task: BAbITask, chance: random.Random) -> list[Question]:
    """Returns the five questions of a random story. An answer needs all of its supporting sentences, and no others.

    Example:
        >>> question = generate_story(1, random.Random(0))[0]
        >>> question.text, question.sentences[question.supporting[0]], question.answer
        ('Where is Mary?', 'Mary travelled to the kitchen.', 'kitchen')
    """
    world = _World(chance)
    questions: list[Question] = []
    num_sentences = 0  # number of sentences since the last question
    while len(questions) < QUESTIONS_PER_STORY:
        if task == 1 or chance.random() < 1 / 3:
            world.move()
        else:
            world.take_or_drop()
        num_sentences += 1
        if task == 1:
            asks = num_sentences == 2
        else:
            asks = num_sentences > 2 and chance.random() < QUESTION_CHANCE[task]
        possible = world.questions(task) if asks else []
        if possible:
            text, answer, supporting = chance.choice(possible)
            line = len(world.sentences) + len(questions) + 1
            questions.append(Question([*world.sentences], supporting, text, answer, line))
            num_sentences = 0
    return questions
