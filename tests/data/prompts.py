"""A byte-level BPE tokenizer in a folder, and prompts for it."""

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from lightning_xai.data.prompt import PromptEncoder
from lightning_xai.data.tokenizers.own_tokenizer import load_tokenizer

CLASSES = ["bad", "good"]
SHOTS = [{"text": "a fine film", "label": "good"}, {"text": "so dull", "label": "bad"}]
TASK = "Is the film good or bad?"
CHAT = (
    "{% for message in messages %}<|start|>{{ message['role'] }}\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)


def byte_level_folder(folder: Path) -> str:
    """Saves a tokenizer whose words " positive" and " negative" are one token each, and " neutral" is several."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(token, special=True) for token in ("<|unk|>", "<|start|>", "<|end|>")]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=alphabet)
    words = "positive negative the\nText: a fine film\nLabel: positive\n\nText: dull\nLabel: negative"
    tokenizer.train_from_iterator([words] * 20, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<|unk|>", bos_token="<|start|>", eos_token="<|end|>", pad_token="<|end|>"
    )
    fast.chat_template = CHAT
    fast.save_pretrained(folder)
    return str(folder)


def llama_folder(folder: Path) -> str:
    """Saves the tokenizer with a random Llama that fits it."""
    place = byte_level_folder(folder)
    sizes = {
        "vocab_size": len(load_tokenizer(place)), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 24, "max_position_embeddings": 512,
    }  # fmt: skip
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **sizes)).save_pretrained(place)
    return place


def prompt_encoder(folder: str, **arguments: Any) -> PromptEncoder:
    """Returns an encoder that knows its classes, and so its prompt unless shots are to be drawn."""
    answers = {"bad": " negative", "good": " positive"}
    given: dict[str, Any] = {"verbalizers": answers, "shots": SHOTS, "task": TASK, "max_length": 120, "fill": "unk"}
    encoder = PromptEncoder(folder, **(given | arguments))
    encoder.take_classes(CLASSES)
    return encoder
