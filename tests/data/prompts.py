"""A byte-level BPE tokenizer in a folder, and prompts for it."""

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lightning_xai.data.prompt import PromptEncoder

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
    words = "positive negative\nText: a fine film\nLabel: positive\n\nText: dull\nLabel: negative"
    tokenizer.train_from_iterator([words] * 20, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<|unk|>", bos_token="<|start|>", eos_token="<|end|>", pad_token="<|end|>"
    )
    fast.chat_template = CHAT
    fast.save_pretrained(folder)
    return str(folder)


def prompt_encoder(folder: str, **arguments: Any) -> PromptEncoder:
    """Returns an encoder that knows its classes, and so its prompt unless shots are to be drawn."""
    given: dict[str, Any] = {"verbalizers": {"bad": " negative", "good": " positive"}, "shots": SHOTS, "task": TASK}
    encoder = PromptEncoder(folder, **({"max_length": 120, "fill": "unk"} | given | arguments))
    encoder.take_classes(CLASSES)
    return encoder
