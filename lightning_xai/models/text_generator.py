"""A language model that answers a question with text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lightning_xai.functional.model_files.model_folders import resolve_model_path


class TextGenerator:
    """Answers messages one at a time, on the CPU, by greedy decoding. Uses the tokenizer's chat template if it has one.

    Args:
        path: folder, hub id, "package:NAME/FOLDER" or GGUF file of a causal language model with a tokenizer.
        max_new_tokens: largest number of tokens in an answer.

    Raises:
        ValueError: there is no language model or no tokenizer at `path`, or `max_new_tokens` is not positive.

    Example:
        >>> TextGenerator("no/such/model", max_new_tokens=8)
        Traceback (most recent call last):
        ValueError: there is no no/such/model: give a model folder or a hub id
    """

    def __init__(self, path: str, max_new_tokens: int) -> None:
        if max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {max_new_tokens}: give at least 1")
        self.max_new_tokens = max_new_tokens
        self.tokenizer = tokenizer_of(path)
        try:
            place = resolve_model_path(path)
            language_model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32)
        except OSError as error:
            reason = str(error).strip().splitlines()[0]
            raise ValueError(f"{path} has no language model ({reason}): give another path") from error
        self.language_model: Any = language_model.eval()

    @torch.no_grad()
    def answer(self, message: str) -> str:
        """Returns the answer to a user's message."""
        has_template = bool(self.tokenizer.chat_template)
        if has_template:
            turns = [{"role": "user", "content": message}]
            message = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        ids = torch.tensor([self.tokenizer(message, add_special_tokens=not has_template)["input_ids"]])
        padding = self.tokenizer.pad_token_id
        given = self.language_model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=self.max_new_tokens, do_sample=False,
            pad_token_id=0 if padding is None else padding,
        )  # fmt: skip
        return str(self.tokenizer.decode(given[0, ids.shape[1] :], skip_special_tokens=True))


def tokenizer_of(path: str) -> Any:
    """Returns the tokenizer at a path.

    Raises:
        ValueError: there is no tokenizer.
    """
    try:
        return AutoTokenizer.from_pretrained(resolve_model_path(path))
    except OSError as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{path} has no tokenizer ({reason}): give another path") from error


def words_of_tokens(tokenizer: Any, ids: Sequence[int]) -> tuple[list[str], list[int]]:
    """Returns the words of the decoded tokens, split at white space, and for each token the index of its word.

    A token belongs to the word in which it ends.

    Args:
        tokenizer: a tokenizer from the transformers library.
        ids: ids of the text's tokens, without special tokens.

    Example:
        >>> class Letters:
        ...     def decode(self, ids, **options):
        ...         return "".join(" ab"[i] for i in ids)
        >>> words_of_tokens(Letters(), [1, 2, 0, 1])
        (['ab', 'a'], [0, 0, 0, 1])
    """
    prefixes = [tokenizer.decode(ids[:count], clean_up_tokenization_spaces=False) for count in range(1, len(ids) + 1)]
    numbers = [max(len(prefix.split()) - 1, 0) for prefix in prefixes]
    return (prefixes[-1].split() if prefixes else []), numbers
