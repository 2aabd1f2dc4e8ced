"""The scorer of AML (attributive masking learning), an encoder that scores tokens, given a text and a prediction."""

from __future__ import annotations

import inspect
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import MODEL_MAPPING, AutoModel, PretrainedConfig

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.network.modes import evaluation_mode
from lightning_xai.functional.text.padding import position_ids, right_padding_order, take_columns
from lightning_xai.models.pretrained.transformers_config import architecture_config, read_config
from lightning_xai.models.pretrained.transformers_loading import load_transformer
from lightning_xai.types import TextInputs

Condition = Literal["probabilities", "class"]


class TokenReader(nn.Module):
    """The layers of a TokenScorer after the word embeddings: an encoder, and a head that gives each token a logit.

    Args:
        encoder: a transformers network without a head.

    Example:
        >>> from transformers import BertConfig, BertModel
        >>> sizes = dict(vocab_size=9, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4)
        >>> reader = TokenReader(BertModel(BertConfig(**sizes), add_pooling_layer=False))
        >>> reader(torch.zeros(2, 3, 4), attention_mask=torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        config = encoder.config
        size, std = config.hidden_size, getattr(config, "initializer_range", 0.02)
        self.encoder = encoder
        self.dropout = nn.Dropout(getattr(config, "hidden_dropout_prob", getattr(config, "dropout", 0.1)))
        self.hidden, self.output = nn.Linear(size, size), nn.Linear(size, 1)
        for layer in (self.hidden, self.output):
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)
        self._accepted = frozenset(inspect.signature(encoder.forward).parameters)

    def forward(self, embeds: Tensor, **arguments: Tensor) -> Tensor:
        """Returns logits [B, S], one for each token. Arguments that the encoder does not accept are left out."""
        known = {name: value for name, value in arguments.items() if name in self._accepted}
        states = self.encoder(inputs_embeds=embeds, **known, return_dict=True).last_hidden_state
        return self.output(self.hidden(self.dropout(states)).tanh()).squeeze(-1)


class TokenScorer(nn.Module):
    """An encoder that reads a text and a prediction y, and returns a logit for each token. It is not a classifier.

    The prediction is an additional token after the text's last token. Instead of a word embedding, this token has the
    embedding z_0 + sum_j y_j z_j with trained vectors z. Word and position embeddings and their LayerNorm are never
    trained.

    Args:
        path: folder, hub id or "package:NAME/FOLDER" of the encoder.
        num_classes: number of classes C of the explained network.
        config: a Hugging Face config with "model_type", given instead of `path` to build an encoder with random
            weights.
        condition: the form of the prediction y: "probabilities" or "class" (one-hot). With "probabilities", the scorer
            explains only the predicted class; with "class", it explains the class that y encodes.

    Raises:
        ValueError: there is no encoder at `path`, or there is a decoder, whose tokens do not attend to later tokens.

    Example:
        >>> sizes = {"vocab_size": 20, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> scorer = TokenScorer(config={"model_type": "bert", "intermediate_size": 4} | sizes).eval()
        >>> inputs = TextInputs.of_ids([[1, 5, 6, 2], [1, 7, 2]], special_ids=[1, 2])
        >>> scorer(inputs, torch.tensor([[0.25, 0.75], [1.0, 0.0]])).shape
        torch.Size([2, 4])

    Reference: Barkan et al. (2024), "LLM Explainability via Attributive Masking Learning", Section 3.3.
    Differs: the authors' code divides the embedding of the prediction by C, and never trains the row of its table z
        whose index is the padding id. When texts of a batch have different lengths, the authors' code overwrites tokens
        of the longer texts with the prediction.
    """

    def __init__(
        self,
        path: str | None = None,
        num_classes: int = 2,
        *,
        config: dict[str, Any] | None = None,
        condition: Condition = "probabilities",
        trust_remote_code: bool = False,
    ) -> None:
        super().__init__()
        require_choices({"condition": Condition}, {"condition": condition})
        settings = read_config(path, config, dropout=None, trust_remote_code=trust_remote_code)
        options = _without_pooler(settings) | {"trust_remote_code": trust_remote_code}
        encoder: Any = load_transformer(AutoModel, path, settings, **options).network
        self.num_classes = num_classes
        self.condition: Condition = condition
        self.reader = TokenReader(encoder)
        self._offset, positions = _positions(encoder)
        self.max_length = None if positions is None else positions - 1  # the prediction takes one position
        self.pad_id: int = settings.pad_token_id or 0
        std = getattr(settings, "initializer_range", 0.02)
        words = encoder.get_input_embeddings().weight
        self.z = nn.Parameter(torch.empty(num_classes + 1, words.shape[1]).normal_(std=std))
        getattr(encoder, "embeddings", encoder.get_input_embeddings()).requires_grad_(False)
        # lists the trained parameters now, because freezing the scorer later sets requires_grad to False everywhere
        self._trained_names = [name for name, p in self.reader.named_parameters() if p.requires_grad]
        self._require_both_directions(str(path or settings.model_type))

    @property
    def num_words(self) -> int:
        """The number of rows of the word embedding table."""
        encoder: Any = self.reader.encoder
        return len(encoder.get_input_embeddings().weight)

    def architecture(self) -> dict[str, Any]:
        """Returns constructor arguments (primitives) that rebuild this scorer without its weights."""
        config = architecture_config(self.reader.encoder.config)
        return {"path": None, "num_classes": self.num_classes, "config": config, "condition": self.condition}

    def copy_encoder(self, transformer: Any) -> None:
        """Copies the weights of a transformers network with the same architecture into the scorer's encoder.

        Raises:
            ValueError: a weight is missing or has another shape.
        """
        weights, explained = self.reader.encoder.state_dict(), transformer.base_model.state_dict()
        for name, value in weights.items():
            if name not in explained or explained[name].shape != value.shape:
                shape = list(value.shape)
                raise ValueError(
                    f"the explained network has no weight {name} of shape {shape} to copy: set scorer.path"
                )
        self.reader.encoder.load_state_dict({name: explained[name] for name in weights})

    def check_length(self, num_tokens: int, subject: str) -> None:
        """Raises ValueError if a text of `num_tokens` tokens leaves no position for the prediction.

        The message calls the text `subject`.
        """
        if self.max_length is not None and num_tokens > self.max_length:
            raise ValueError(
                f"{subject} has {num_tokens} tokens, which leaves the scorer no position for the prediction: set the "
                f"data's max_length to at most {self.max_length}"
            )

    def reader_arguments(self, inputs: TextInputs, y: Tensor) -> dict[str, Tensor]:
        """Returns the inputs of `reader`: embeds [B, T + 1, D], mask, position ids and token types.

        In each text, an additional token for the prediction `y` follows the last token.

        Args:
            inputs: B texts with padding on the right.
            y: [B, C] probabilities, or one-hot classes.
        """
        self.check_length(int(inputs.attention_mask.sum(dim=1).max()) if len(inputs) else 0, "a text")
        encoder: Any = self.reader.encoder
        words = encoder.get_input_embeddings()(inputs.input_ids.masked_fill(~inputs.attention_mask, self.pad_id))
        prediction = self.z[0] + y.to(self.z.dtype) @ self.z[1:]  # [B, D]
        lengths = inputs.attention_mask.sum(dim=1, keepdim=True)  # [B, 1]
        columns = torch.arange(inputs.input_ids.shape[1] + 1, device=lengths.device)
        embeds = torch.where((columns == lengths).unsqueeze(-1), prediction.unsqueeze(1), F.pad(words, (0, 0, 0, 1)))
        mask = columns <= lengths
        arguments = {
            "embeds": embeds,
            "attention_mask": mask.long(),
            "position_ids": position_ids(mask, offset=self._offset),
        }
        if inputs.token_type_ids is not None and getattr(encoder.config, "type_vocab_size", 0) > 1:
            types = F.pad(inputs.token_type_ids, (0, 1))
            last = types.gather(1, (lengths - 1).clamp(min=0))  # the prediction has the type of the preceding token
            arguments["token_type_ids"] = torch.where(columns == lengths, last, types).masked_fill(~mask, 0)
        return arguments

    def forward(self, inputs: TextInputs, y: Tensor) -> Tensor:
        """Returns logits [B, T], one for each token. Padding may be in any column.

        Args:
            inputs: B texts.
            y: [B, C] probabilities, or one-hot classes.

        Raises:
            ValueError: a text leaves no position for the prediction.
        """
        order = right_padding_order(inputs.attention_mask)
        if order is not None:
            inputs = inputs.map(lambda tensor: take_columns(tensor, order) if tensor.dim() > 1 else tensor)
        logits = self.reader(**self.reader_arguments(inputs, y))[:, :-1]
        return logits if order is None else logits.gather(1, order.argsort(dim=1))

    def trained_names(self, tuned: str = "all") -> list[str]:
        """Returns the names of the parameters of `reader` that are tuned when a copy of the scorer is tuned on a text.

        Args:
            tuned: "all" for all parameters of `reader` that pretraining trains, or "last:K" for the head and the last K
                layers of the encoder.

        Raises:
            ValueError: `tuned` is neither "all" nor "last:K", or the encoder has fewer than K layers.
        """
        names = list(self._trained_names)
        if tuned == "all":
            return names
        encoder: Any = self.reader.encoder
        stacks = [(name, part) for name, part in self.reader.named_modules() if isinstance(part, nn.ModuleList)]
        stack, layers = next((n, p) for n, p in stacks if len(p) == encoder.config.num_hidden_layers)
        count = int(tuned.removeprefix("last:")) if tuned.removeprefix("last:").isdigit() else 0
        if not 1 <= count <= len(layers):
            raise ValueError(f"tuned is {tuned!r}: give 'all', 'lora:R', or 'last:K' with K from 1 to {len(layers)}")
        last = tuple(f"{stack}.{number}." for number in range(len(layers) - count, len(layers)))
        return [name for name in names if name.startswith(last) or not name.startswith("encoder.")]

    @torch.no_grad()
    def _require_both_directions(self, name: str) -> None:
        """Raises ValueError if the hidden states of tokens do not depend on later tokens, as in a decoder."""
        width = self.z.shape[1]
        embeds = torch.linspace(-1, 1, 3 * width).reshape(1, 3, width)
        changed = torch.cat([embeds[:, :2], -embeds[:, 2:]], dim=1)
        with evaluation_mode(self.reader):
            one, other = (self.reader.encoder(inputs_embeds=e).last_hidden_state[0, 0] for e in (embeds, changed))
        if torch.equal(one, other):
            raise ValueError(f"{name}: its tokens do not attend to later tokens: give an encoder, not a decoder")


def _without_pooler(settings: PretrainedConfig) -> dict[str, Any]:
    """Returns the option that omits the pooling layer, or {} if the encoder's class has no such option.

    The weights of this layer would get no gradient.
    """
    encoder_class: Any = MODEL_MAPPING[type(settings)] if type(settings) in MODEL_MAPPING else object
    has_option = "add_pooling_layer" in inspect.signature(encoder_class.__init__).parameters
    return {"add_pooling_layer": False} if has_option else {}


def _positions(encoder: Any) -> tuple[int, int | None]:
    """Returns an encoder's first position id, and its number of positions from there on (None if there is no limit)."""
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    if not isinstance(table, nn.Embedding):
        return 0, getattr(encoder.config, "max_position_embeddings", None) or None
    offset = 0 if table.padding_idx is None else table.padding_idx + 1  # RoBERTa's first position
    return offset, table.num_embeddings - offset
