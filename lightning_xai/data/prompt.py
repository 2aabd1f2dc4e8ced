"""Encodes a text inside a prompt, so that a language model classifies the text by predicting the next token."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lightning_xai.data.corpora.token_columns import OneSpecialToken
from lightning_xai.data.corpora.token_table import TokenTable
from lightning_xai.data.encoded import Encoded
from lightning_xai.data.encoding import FastTokenizerEncoder, TokenizerEncoder
from lightning_xai.data.prompt_parts import (
    SLOT,
    PromptParts,
    Shot,
    check_answers,
    comparable,
    draw_shots,
    prompt_parts,
    shot_of,
    split_template,
)
from lightning_xai.functional.text.quantity import quantity

_CHAT_PLACE = "{message}"


class PromptEncoder(TokenizerEncoder):
    """Encodes texts as prompts: a task line, solved examples (shots), the text, and a line that asks for the answer.

    Only the text can be explained, erased and truncated. Each part of the prompt is tokenized separately, so the prompt
    has the same tokens around every text. Without `chat`, the prompt begins with the special tokens that the tokenizer
    puts before texts. No other token of the prompt counts as special.

    Args:
        path: folder, hub id, "package:NAME/FOLDER" or GGUF file. On the command line, None is the network's tokenizer.
        verbalizers: class name -> answer (one token after the prompt), usually with a leading space (" positive").
        task: the first sentence of the prompt; "" for no such sentence.
        template: the format of the shots and of the text to classify; {text} is the placeholder of a text. In a shot,
            the answer is appended.
        shots: the solved examples, as a list of dicts with `text` and `label` (a class name); or the number of training
            rows to draw as shots. The classes get nearly equal numbers of drawn shots, and rows whose text is also in
            another split are not drawn.
        seed: seed of the random choice of shots.
        chat: whether the prompt becomes a user's message in the tokenizer's chat template.
        max_length: largest number of tokens, prompt and text together.
        fill: as in FastTokenizerEncoder.
        trust_remote_code: whether Python code in the folder at `path` may run.

    Raises:
        ValueError: there are no verbalizers, the template does not contain {text} exactly once, or `shots` is
            negative. `take_classes` or `fit` raises the error if a class has no answer; if an answer belongs to no
            class or to two classes, or is not exactly one known token; if a shot has an unknown class, or a text of an
            evaluated split; or if the prompt leaves no room for a text.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.vocabulary import word_tokenizer
        >>> words = ["Mood", "?", "Text", ":", "Label", "fun", "dull", "P", "N"]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = word_tokenizer(words, split="punctuation", lowercase=False).save_pretrained(folder)
        ...     shots = [{"text": "fun", "label": "good"}]
        ...     encoder = PromptEncoder(folder, {"bad": " N", "good": " P"}, task="Mood?", shots=shots)
        >>> encoder.take_classes(["bad", "good"])
        >>> encoded = encoder.encode({"text": "dull"})
        >>> " ".join(encoder.tokens(encoded))
        '[CLS] Mood ? Text : fun Label : P Text : dull Label :'
        >>> encoded.token_mask.nonzero()[0].tolist(), encoder.verbalizer_ids
        ([11], [13, 12])
    """

    def __init__(
        self,
        path: str | None = None,
        verbalizers: dict[str, str] | None = None,
        task: str = "",
        template: str = "Text: {text}\nLabel:",
        shots: list[dict[str, str]] | int = 0,
        seed: int = 0,
        chat: bool = False,
        max_length: int = 512,
        fill: str = "mask",
        trust_remote_code: bool = False,
    ) -> None:
        super().__init__(path, max_length, fill, trust_remote_code=trust_remote_code)
        if not verbalizers:
            raise ValueError("PromptEncoder has no verbalizers: give each class an answer, such as {good: ' good'}")
        split_template(template)
        if isinstance(shots, int) and shots < 0:
            raise ValueError(f"shots is {shots}: give a number of at least 0, or a list of texts with labels")
        self.answers = dict(verbalizers)
        self.task, self.template, self.chat, self.seed = task, template, chat, seed
        self.num_drawn = shots if isinstance(shots, int) else 0
        self.shots: list[Shot] = [] if isinstance(shots, int) else [shot_of(shot) for shot in shots]
        self.class_names: list[str] = []
        self._verbalizer_ids: list[int] = []
        self._head = self._tail = np.zeros(0, dtype=np.int32)
        self._is_built = False
        self._num_special = 0  # number of special tokens at the beginning of the prompt
        self._lead = ""
        self._evaluated: set[str] = set()

    @property
    def needs_fit(self) -> bool:
        return not self._is_built

    @property
    def keeps_text(self) -> bool:
        return self.num_drawn > 0

    @property
    def verbalizer_ids(self) -> list[int]:
        """[C] ids of the tokens that answer the prompt, one for each class."""
        return self._verbalizer_ids

    def take_classes(self, class_names: Sequence[str], evaluated: Iterable[str] = ()) -> None:
        """Builds the prompt. If shots must be drawn, `fit` builds the prompt instead."""
        check_answers(self.answers, class_names)
        self.class_names = list(class_names)
        if self.num_drawn and not self.shots:
            self._evaluated = {comparable(text) for text in evaluated}
            return
        for shot in self.shots:
            if shot["label"] not in class_names:
                raise ValueError(
                    f"the shot {shot['text'][:40]!r} has label {shot['label']!r}, which is not one of the classes "
                    f"{list(class_names)}: correct the label"
                )
        shots = {comparable(shot["text"]) for shot in self.shots}
        leaked = next((text for text in evaluated if comparable(text) in shots), None) if shots else None
        if leaked is not None:
            raise ValueError(f"the shot {leaked[:40]!r} is also in a validation or test split: give another shot")
        self._build()

    def fit(self, examples: Iterable[dict[str, Any]]) -> None:
        """Draws the shots from the training rows, and builds the prompt."""
        rows = [row for row in examples if comparable(row["text"]) not in self._evaluated]
        labels = [self.class_names[row["labels"]] for row in rows]
        self.shots = draw_shots([row["text"] for row in rows], labels, self.num_drawn, self.seed)
        self._evaluated = set()
        self._build()

    def state_dict(self) -> dict[str, Any]:
        return {} if self.needs_fit else {"class_names": self.class_names, "shots": [dict(shot) for shot in self.shots]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if "shots" not in state:
            super().load_state_dict(state)
        self.class_names, self.shots = list(state["class_names"]), [shot_of(shot) for shot in state["shots"]]
        check_answers(self.answers, self.class_names)
        self._build()

    def facts(self) -> dict[str, Any]:
        ids = np.concatenate([self._head, [-1], self._tail]).astype("<i4").tobytes()
        return super().facts() | {"prompt": hashlib.sha256(ids).hexdigest()[:12]}

    def prompt(self) -> dict[str, Any]:
        """Returns the text of the prompt, its shots and answers, and a hash of its tokens."""
        parts = prompt_parts(self.task, self.shots, self.template, self.answers, self._chat_frame())
        text = "".join([*parts.before, parts.lead, SLOT, *parts.after])
        shots = [dict(shot) for shot in self.shots]
        return {"text": text, "verbalizers": self.answers, "shots": shots, "hash": self.facts()["prompt"]}

    def summary(self) -> dict[str, Any]:
        return {"prompt_tokens": len(self._head) + len(self._tail), "shots": len(self.shots)}

    def encode_batch(self, examples: Sequence[dict[str, Any]]) -> list[Encoded]:
        if self.needs_fit:
            raise ValueError("the prompt is not built yet: call take_classes and, if shots are drawn, fit")
        if any(example.get("text_pair") is not None for example in examples):
            raise ValueError("PromptEncoder encodes a single text, but an example has a text_pair: use another encoder")
        if not examples:
            return []
        texts = super().encode_table([self._with_lead(example) for example in examples])
        return [self._in_prompt(texts.encoded(row)) for row in range(len(examples))]

    def encode_table(self, examples: Sequence[dict[str, Any]]) -> TokenTable:
        return TokenTable.of(self.encode_batch(examples))

    def _encodings(self, examples: Sequence[dict[str, Any]]) -> tuple[list[Any], list[int]]:
        """Returns encodings of texts, truncated to leave room for the prompt, and the indices of pairs: always []."""
        room = self.max_length - len(self._head) - len(self._tail)
        texts = [example["text"] for example in examples]
        batch = self.tokenizer(texts, add_special_tokens=False, truncation=True, max_length=room, padding=False)
        return [e if len(e) else OneSpecialToken([self._empty_id], e.overflowing) for e in batch.encodings], []

    def _with_lead(self, example: dict[str, Any]) -> dict[str, Any]:
        """Returns the example with `self._lead` before its text, unless this is empty, and shifts the evidence spans.

        `self._lead` holds the template's spaces just before the text, or "" if the tokenizer itself adds a space.
        """
        n = len(self._lead)
        rationales = example.get("rationales") or []
        moved = [{**r, "spans": [[begin + n, end + n] for begin, end in r["spans"]]} for r in rationales]
        text = self._lead + example["text"] if example["text"] else ""
        return {**example, "text": text, "rationales": moved}

    def _in_prompt(self, text: Encoded) -> Encoded:
        """Returns the tokens of a text with the prompt's tokens around them. An empty text contributes no token."""
        is_empty = len(text) == 1 and text.special_tokens_mask[0]  # a single special token stands for an empty text
        kept = slice(0, 0) if is_empty else slice(None)
        before, after = len(self._head), len(self._tail)
        special_head = np.arange(before) < self._num_special

        def around(values: np.ndarray, head: Any, tail: Any) -> np.ndarray:
            parts = [np.broadcast_to(head, before), values[kept], np.broadcast_to(tail, after)]
            return np.concatenate(parts).astype(values.dtype)

        offsets = np.zeros((before + len(text.offsets[kept]) + after, 2), dtype=text.offsets.dtype)
        offsets[before : len(offsets) - after] = (text.offsets[kept] - len(self._lead)).clip(min=0)
        return replace(
            text,
            input_ids=around(text.input_ids, self._head, self._tail),
            special_tokens_mask=around(text.special_tokens_mask, special_head, False),
            token_mask=around(text.token_mask, False, False),
            baseline_ids=around(text.baseline_ids, self._head, self._tail),
            word_ids=around(text.word_ids, -1, -1),
            sequence_ids=around(text.sequence_ids, -1, -1),
            offsets=offsets,
            token_type_ids=None if text.token_type_ids is None else around(text.token_type_ids, 0, 0),
            rationales={label: around(mask, False, False) for label, mask in text.rationales.items()},
        )

    def _build(self) -> None:
        parts = prompt_parts(self.task, self.shots, self.template, self.answers, self._chat_frame())
        opening = [] if self.chat else self._leading_special_ids()
        head = opening + [i for part in parts.before for i in self._ids(part)]
        tail = [i for part in parts.after for i in self._ids(part)]
        self._require_room(len(head) + len(tail), self.max_length)
        self._verbalizer_ids = self._answer_ids(parts)
        self._head, self._tail = np.array(head, dtype=np.int32), np.array(tail, dtype=np.int32)
        self._num_special, self._lead = len(opening), "" if self._adds_a_space() else parts.lead
        self._is_built = True

    def with_max_length(self, max_length: int) -> FastTokenizerEncoder:
        limited = super().with_max_length(max_length)
        self._require_room(len(self._head) + len(self._tail), max_length)
        return limited

    def _require_room(self, num_tokens: int, max_length: int) -> None:
        if num_tokens >= max_length:
            raise ValueError(
                f"the prompt has {quantity(num_tokens, 'token')}, which leaves no room for a text in max_length="
                f"{max_length}: raise max_length, or give fewer or shorter shots"
            )

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _leading_special_ids(self) -> list[int]:
        encoding = self.tokenizer(["a"], return_special_tokens_mask=True).encodings[0]
        return encoding.ids[: encoding.special_tokens_mask.index(0)]

    def _adds_a_space(self) -> bool:
        """Returns whether the tokenizer itself puts a space before a text, as SentencePiece does."""
        first = str(self.tokenizer.convert_ids_to_tokens(self._ids("a"))[0])
        return self._ids("a") == self._ids(" a") or first.startswith(("\u2581", "\u0120"))

    def _chat_frame(self) -> tuple[str, str] | None:
        if not self.chat:
            return None
        if not self.tokenizer.chat_template:
            raise ValueError(f"the tokenizer {self.tokenizer.name_or_path} has no chat template: set `chat: false`")
        message = [{"role": "user", "content": _CHAT_PLACE}]
        text = str(self.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True))
        before, place, after = text.partition(_CHAT_PLACE)
        if not place:
            raise ValueError(
                f"the chat template of {self.tokenizer.name_or_path} changes the text of messages: set `chat: false`"
            )
        return before, after

    def _answer_ids(self, parts: PromptParts) -> list[int]:
        """Returns, for each class, the id of the one token that its answer adds after the prompt's last part."""
        last = parts.after[-1] if parts.after else ""
        start, ids = self._ids(last), list[int]()
        for name in self.class_names:
            answer = self.answers[name]
            added = self._ids(last + answer)
            if added[: len(start)] != start or len(added) != len(start) + 1:
                tokens = self.tokenizer.convert_ids_to_tokens(added[len(start) :])
                raise ValueError(
                    f"the verbalizer {answer!r} of class {name!r} adds the tokens {tokens} after {last!r}: give an "
                    "answer that adds exactly one token; a leading space may help"
                )
            if added[-1] == self.unk_token_id:
                raise ValueError(f"the verbalizer {answer!r} of class {name!r} is an unknown token: change the answer")
            if added[-1] in ids:
                other = self.class_names[ids.index(added[-1])]
                raise ValueError(f"classes {other!r} and {name!r} share an answer token: change one of the answers")
            ids.append(added[-1])
        return ids
