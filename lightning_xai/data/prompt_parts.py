"""The text parts of a prompt: a task line, solved examples (shots), and the template of the text to classify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

SLOT = "{text}"


class Shot(TypedDict):
    """A solved example in a prompt: a text and the name of its class."""

    text: str
    label: str


class PromptParts(NamedTuple):
    """The parts of a prompt before and after the text to classify. Each part is tokenized separately.

    Example:
        >>> PromptParts(before=["Which mood?\\n\\n", "Text:"], after=["\\nLabel:"], lead=" ").after
        ['\\nLabel:']
    """

    before: list[str]
    after: list[str]
    lead: str  # spaces just before the text to classify; they are tokenized together with the text


def split_template(template: str) -> tuple[str, str]:
    """Returns the parts of a template before and after its placeholder {text}.

    Raises:
        ValueError: the template does not contain {text} exactly once.

    Example:
        >>> split_template("Text: {text}\\nLabel:")
        ('Text: ', '\\nLabel:')
    """
    if template.count(SLOT) != 1:
        raise ValueError(f"template {template!r} has {template.count(SLOT)} places for the text: write {SLOT} once")
    before, _, after = template.partition(SLOT)
    return before, after


def prompt_parts(
    task: str, shots: Sequence[Shot], template: str, answers: Mapping[str, str], chat: tuple[str, str] | None = None
) -> PromptParts:
    """Returns the parts of a prompt. Task, shots and the text to classify are separated by blank lines.

    Spaces just before {text} are tokenized with the text, since byte-level tokenizers join a space to the next word.

    Args:
        task: the first sentence of the prompt; "" for no such sentence.
        shots: the solved examples.
        template: the format of the shots and of the text to classify; {text} is the placeholder of a text. In a shot,
            the answer is appended.
        answers: class name -> answer, with its leading space if it has one.
        chat: what a chat template writes before and after the user's message; None without a chat template.

    Example:
        >>> shots = [Shot(text="fun", label="good")]
        >>> parts = prompt_parts("Which mood?", shots, "Text: {text}\\nLabel:", {"good": " P", "bad": " N"})
        >>> parts.before
        ['Which mood?\\n\\n', 'Text: fun\\nLabel: P\\n\\n', 'Text:']
        >>> parts.after, parts.lead
        (['\\nLabel:'], ' ')
    """
    opening, after = split_template(template)
    solved = [f"{opening}{shot['text']}{after}{answers[shot['label']]}\n\n" for shot in shots]
    cut = opening.rstrip(" ")
    before = [f"{task}\n\n"] if task else []
    before += [*solved, cut]
    ending = [after]
    if chat is not None:
        before, ending = [chat[0], *before], [after, chat[1]]
    return PromptParts([part for part in before if part], [part for part in ending if part], opening[len(cut) :])


def draw_shots(texts: Sequence[str], labels: Sequence[str], num_shots: int, seed: int) -> list[Shot]:
    """Returns random shots in random order.

    For any two classes, the numbers of shots differ by at most 1, unless a class has too few rows.

    Args:
        texts: texts of the training rows.
        labels: class name of each row.
        num_shots: number of shots.
        seed: seed of the random choice.

    Raises:
        ValueError: there are too few rows.

    Example:
        >>> shots = draw_shots(["a", "b", "c", "d"], ["no", "yes", "no", "yes"], num_shots=2, seed=0)
        >>> sorted(shot["label"] for shot in shots)
        ['no', 'yes']
    """
    random = np.random.default_rng([seed, len(texts)])
    rows = random.permutation(len(texts)).tolist()
    by_class = {name: [row for row in rows if labels[row] == name] for name in dict.fromkeys(labels)}
    classes = [list(by_class)[i] for i in random.permutation(len(by_class)).tolist()]
    chosen: list[int] = []
    for turn in range(max(map(len, by_class.values()), default=0)):
        chosen += [by_class[name][turn] for name in classes if turn < len(by_class[name])]
    if len(chosen) < num_shots:
        raise ValueError(f"`shots` is {num_shots}, but only {len(chosen)} training rows can be drawn: lower `shots`")
    shuffled = random.permutation(num_shots).tolist()
    return [Shot(text=texts[chosen[i]], label=labels[chosen[i]]) for i in shuffled]


def check_answers(answers: Mapping[str, str], class_names: Sequence[str]) -> None:
    """Raises ValueError unless every class has an answer, every answer has a class, and all answers differ.

    Example:
        >>> check_answers({"bad": " N", "good": " P"}, ["bad", "good"])
        >>> check_answers({"bad": " N"}, ["bad", "good"])
        Traceback (most recent call last):
        ValueError: verbalizers has no answer for class 'good': give an answer for each of ['bad', 'good']
    """
    for name in class_names:
        if name not in answers:
            raise ValueError(
                f"verbalizers has no answer for class {name!r}: give an answer for each of {list(class_names)}"
            )
    for name in answers:
        if name not in class_names:
            raise ValueError(
                f"verbalizers has an answer for {name!r}, which is not a class: the classes are {list(class_names)}"
            )
    for name, answer in answers.items():
        other = next(other for other in answers if answers[other] == answer)
        if other != name:
            raise ValueError(
                f"verbalizers gives classes {other!r} and {name!r} the same answer {answer!r}: change one of them"
            )


def comparable(text: str) -> str:
    """Returns a text in the form in which shots are compared with evaluated texts: one case, single spaces.

    Example:
        >>> comparable(" So  dull\\n")
        'so dull'
    """
    return " ".join(text.split()).casefold()


def shot_of(shot: Any) -> Shot:
    """Returns a dict from a file of settings as a Shot. Raises ValueError unless its keys are text and label.

    Example:
        >>> shot_of({"text": 7, "label": "good"})
        {'text': '7', 'label': 'good'}
    """
    if not isinstance(shot, dict) or set(shot) != {"text", "label"}:
        raise ValueError(f"the shot {shot!r} is not a dict with exactly the keys text and label: correct it")
    return Shot(text=str(shot["text"]), label=str(shot["label"]))
