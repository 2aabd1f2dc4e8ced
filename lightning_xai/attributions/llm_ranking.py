"""Explanations by a language model, which ranks the words of a text by their importance for a class."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.models.base import Classifier
from lightning_xai.models.text_generator import TextGenerator, tokenizer_of, words_of_tokens
from lightning_xai.types import Passes, TextInputs

TEXT, LABEL = "{text}", "{label}"
TASK = """A classifier read the text below and predicted the class "{label}".

Text: {text}

List the words of the text that were most important for this prediction, the most important word first. Copy the words
exactly from the text. Give a numbered list with one word in each line, and nothing else."""


class Ranked(NamedTuple):
    """The ranks that an answer gives to the words of a text, and how many mentions of words were used or dropped.

    Example:
        >>> Ranked(ranks=[1, None], num_ranked=1, num_dropped=0).ranks
        [1, None]
    """

    ranks: list[int | None]  # rank of each word of the text: 0 if it is mentioned first; None if it is not mentioned
    num_ranked: int  # number of words of the text that have a rank
    num_dropped: int  # number of mentions that add no rank: the text lacks the word, or all its occurrences have ranks


def mentioned_words(answer: str) -> list[str]:
    """Returns an answer's words in order, in lower case, without list numbers and punctuation around the words.

    Example:
        >>> mentioned_words('1. "Great" (adjective)\\n2) film\\n- fun, dull')
        ['great', 'adjective', 'film', 'fun', 'dull']
    """
    lines = [re.sub(r"^\s*(?:\d+\s*[.):]|[-*\u2022])\s*", "", line) for line in answer.splitlines()]
    return [bare for line in lines for part in re.split(r"[\s,;]+", line) if (bare := bare_word(part))]


def bare_word(word: str) -> str:
    """Returns a word in lower case without punctuation at its ends.

    Example:
        >>> bare_word('"Great!"'), bare_word("don't"), bare_word("...")
        ('great', "don't", '')
    """
    return re.sub(r"^[\W_]+|[\W_]+$", "", word).casefold()


def rank_words(words: Sequence[str], mentions: Sequence[str]) -> Ranked:
    """Ranks the words of a text in the order in which an answer mentions them.

    If a word occurs several times in the text, its k-th mention gives a rank to its k-th occurrence.

    Example:
        >>> rank_words(["So", "good,", "so", "good!"], ["good", "so", "good", "bad"])
        Ranked(ranks=[1, 0, None, 2], num_ranked=3, num_dropped=1)
    """
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(bare_word(word), []).append(place)
    ranks: list[int | None] = [None] * len(words)
    rank = 0
    for mention in mentions:
        unranked = places.get(mention)
        if unranked:
            ranks[unranked.pop(0)] = rank
            rank += 1
    return Ranked(ranks, rank, len(mentions) - rank)


def rank_scores(ranks: Sequence[int | None]) -> list[float]:
    """Returns scores from 1 for the first of n ranks down to 1/n for the last; words without a rank get 0.

    Example:
        >>> rank_scores([1, None, 0])
        [0.5, 0.0, 1.0]
    """
    number = sum(rank is not None for rank in ranks)
    return [0.0 if rank is None else (number - rank) / number for rank in ranks]


class LLMRanking(AttributionMethod):
    """Scores words by the ranks that an instruction-tuned language model gives them. The explained network is not used.

    The language model reads the text and the name of the class. Its answers are decoded greedily, one text at a time.
    Words are separated by white space. If the answer ranks n words of the text, the first scores 1 and the last 1/n.
    Words that the answer does not mention get a score of 0. Words of the answer that are not in the text are dropped.
    `answers` holds the numbers of all answers ("answers"), of ranked words ("ranked"), of dropped words ("dropped"),
    and of answers without any word of the text ("useless"). All tokens of a word get the word's score.

    The text is decoded from the explainable tokens, so special tokens and prompts are left out.

    Args:
        path: folder, hub id, "package:NAME/FOLDER" or GGUF file of a causal language model with a tokenizer.
        class_names: names of the classes, as the language model reads them.
        tokenizer_path: where the tokenizer of the explained network is, in the same form as `path`; None if both models
            have the same tokenizer.
        task: the instruction, which contains {text} and {label} once each.
        max_new_tokens: largest number of tokens in an answer.

    Raises:
        ValueError: `task` does not contain {text} and {label} once each, or `max_new_tokens` is below 1. At the first
            text: there is no model at `path`, or the number of `class_names` differs from the number of classes.

    Example:
        >>> rank_scores(rank_words(["a", "great", "film"], mentioned_words("1. great\\n2. film")).ranks)
        [0.0, 1.0, 0.5]

    Reference: Barkan et al. (2024), "LLM Explainability via Attributive Masking Learning", the method LLM of Table 2.
    """

    has_sign = False

    def __init__(
        self,
        path: str,
        class_names: list[str],
        tokenizer_path: str | None = None,
        task: str = TASK,
        max_new_tokens: int = 96,
    ) -> None:
        for slot in (TEXT, LABEL):
            if task.count(slot) != 1:
                raise ValueError(f"task has {task.count(slot)} places for {slot}: it must contain {slot} once")
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {max_new_tokens}: give at least 1 token")
        self.path, self.class_names, self.tokenizer_path = path, class_names, tokenizer_path
        self.task, self.max_new_tokens = task, max_new_tokens
        self._generator: TextGenerator | None = None  # loaded at the first text
        self._tokenizer: Any = None  # tokenizer of the explained network
        self.answers: Counter[str] = Counter()

    def __deepcopy__(self, memo: Any) -> LLMRanking:
        return self  # a copy would need memory for a second language model

    def passes(self, num_tokens: int, num_targets: int) -> Passes:
        return Passes(forward=0, backward=0)  # the explained network is not used

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "answers"}

    def scores(self, model: Classifier, inputs: TextInputs, targets: Tensor) -> Tensor:
        if len(self.class_names) != model.num_classes:
            raise ValueError(
                f"LLMRanking has {len(self.class_names)} class_names, but the network has {model.num_classes} classes: "
                "give one name for each class"
            )
        self._load()
        scores = torch.zeros(*targets.shape, inputs.input_ids.shape[1], device=inputs.device)
        for row, classes in enumerate(targets.tolist()):
            columns = inputs.token_mask[row].nonzero().flatten()
            words, word_of = words_of_tokens(self._tokenizer, inputs.input_ids[row, columns].tolist())
            if not words:
                continue
            ranked = {target: self._ranking(words, self.class_names[target]) for target in dict.fromkeys(classes)}
            for column, target in enumerate(classes):
                scores[row, column, columns] = torch.tensor(rank_scores(ranked[target].ranks))[word_of].to(scores)
        return scores

    def _ranking(self, words: Sequence[str], label: str) -> Ranked:
        """Returns the language model's ranking of the words, and counts the answer."""
        assert self._generator is not None
        answer = self._generator.answer(self.task.replace(LABEL, label).replace(TEXT, " ".join(words)))
        ranked = rank_words(words, mentioned_words(answer))
        useless = int(not ranked.num_ranked)
        self.answers.update(answers=1, ranked=ranked.num_ranked, dropped=ranked.num_dropped, useless=useless)
        return ranked

    def _load(self) -> None:
        if self._generator is None:
            self._generator = TextGenerator(self.path, self.max_new_tokens)
            path = self.tokenizer_path
            self._tokenizer = self._generator.tokenizer if path is None else tokenizer_of(path)
