"""The interface of every text classifier."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from lightning_xai.functional.classes.class_outputs import logits_only
from lightning_xai.functional.decomposition.encoder_layer import EncoderLayer
from lightning_xai.functional.network.chunking import packed_rows
from lightning_xai.models.pretrained.pretrained_weights import WeightGaps
from lightning_xai.types import ClassifierOutput, TextInputs


def check_num_classes(num_classes: int, *, multilabel: bool) -> None:
    """Raises ValueError if a single-label classifier has fewer than 2 classes, or a multi-label classifier has none.

    Example:
        >>> check_num_classes(1, multilabel=True)
        >>> check_num_classes(1, multilabel=False)
        Traceback (most recent call last):
        ValueError: num_classes is 1: a single-label classifier needs at least 2
    """
    kind, fewest = ("multi-label", 1) if multilabel else ("single-label", 2)
    if num_classes < fewest:
        raise ValueError(f"num_classes is {num_classes}: a {kind} classifier needs at least {fewest}")


def encoder_and_head(network: Classifier) -> list[list[nn.Parameter]]:
    """Returns two lists of trained parameters (those that require a gradient): the encoder's and the head's.

    Example:
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> [len(group) > 0 for group in encoder_and_head(random_bert())]
        [True, True]
    """
    head = {id(parameter) for parameter in network.head_parameters()}
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    return [[p for p in trained if id(p) not in head], [p for p in trained if id(p) in head]]


class Classifier(nn.Module, ABC):
    """Base class of text classifiers, which map TextInputs to logits [B, C].

    Callers may replace token embeddings and take gradients with respect to them.

    Every classifier must keep the following laws, which `lightning_xai.check_model` checks:

    - The class sets `readout_is_attention`. The class or its constructor sets `num_classes`, `multilabel` and `pad_id`.
      If the constructor has an argument for the size of the vocabulary, its name is `vocab_size`.
    - `model(x).logits` equals `model(x, model.embed(x)).logits`. If embeddings and inputs differ in the number of rows
      or tokens, `forward` raises ValueError (see `check_embeds`).
    - Logits do not depend on the presence or side of padding, on the batch size, or on the other texts of the batch.
      If tokens are outside the attention mask, logits are the same as without these tokens. A text without any token
      gets finite logits and gradients.
    - The readout [B, 1 or C, T] holds the weights with which the head averages the last hidden state. Each row sums to
      1 over the tokens of the text, unless the text has no tokens. If the class defines `head_layers`, these layers map
      readout @ last hidden state to the logits.
    - The output has hidden states only if `output_hidden_states` is True. Column t of the readout and of the hidden
      states belongs to token t, even if padding is on the left.
    - Inside the attention mask, a token with the padding id is treated like any other token: it has its own position.
    - If `output_attentions` is True, the output has one attention tensor for each layer (one fewer than hidden states),
      and the attention tensors are in the autograd graph of the logits. If attention is not "eager", or if padding is
      on the left, `forward` raises ValueError instead.
    - With "eager" attention, a gradient with respect to embeddings can be differentiated again with respect to every
      weight of the encoder.
    - A forward pass leaves no hooks behind, even if it fails. `predict` returns the probabilities of a forward pass.
    - `attention_implementation` is the name last given to `set_attention`, or "sdpa" before the first call. "eager" and
      "sdpa" give the same logits, up to rounding. A network without attention between tokens stores the name, but
      returns no attentions.
    - The network works in float64 after `.double()`, so `forward` must not create tensors of a fixed floating-point
      type.
    - A network built from `architecture()` is in training mode and has no gradients. After it has loaded the state dict
      of the original network, it gives the same logits as that network.

    Example:
        >>> class BagOfWords(Classifier):
        ...     readout_is_attention, multilabel, pad_id = False, False, 0
        ...     attention_implementation = "sdpa"
        ...
        ...     def __init__(self, vocab_size: int, num_classes: int = 2, size: int = 4):
        ...         super().__init__()
        ...         self.num_classes = num_classes
        ...         self.table = nn.Embedding(vocab_size, size)
        ...         self.head = nn.Linear(size, num_classes)
        ...
        ...     @property
        ...     def embedding_matrix(self):
        ...         return self.table.weight
        ...
        ...     def embed(self, inputs):
        ...         return self.table(inputs.input_ids)
        ...
        ...     def forward(self, inputs, inputs_embeds=None, *, output_attentions=False, output_hidden_states=False):
        ...         self.check_embeds(inputs, inputs_embeds)
        ...         embeds = self.embed(inputs) if inputs_embeds is None else inputs_embeds
        ...         mask = inputs.attention_mask.unsqueeze(1).to(embeds.dtype)
        ...         readout = mask / mask.sum(dim=-1, keepdim=True).clamp(min=1)  # the mean of all words
        ...         states = (embeds,) if output_hidden_states else None
        ...         return ClassifierOutput(self.head(readout @ embeds).squeeze(1), readout, hidden_states=states)
        ...
        ...     def head_parameters(self):
        ...         return list(self.head.parameters())
        ...
        ...     def set_attention(self, implementation):
        ...         self.attention_implementation = implementation
        >>> network, inputs = BagOfWords(vocab_size=5), TextInputs.of_ids([[3, 4], [3]])
        >>> torch.equal(network(inputs).logits, network(inputs, network.embed(inputs)).logits)
        True
        >>> network.architecture()
        {'vocab_size': 5, 'num_classes': 2, 'size': 4}
    """

    readout_is_attention: ClassVar[bool]  # True if the head attends to tokens, False if it reads fixed tokens
    # True if `forward` also has the arguments `classes` and `output_readout`. With `classes` [B, K], it returns logits
    # [B, K] and readout [B, K, T] of these classes only. With `output_readout=False`, the returned readout has no rows,
    # so that the head may use fused attention
    reads_by_class: ClassVar[bool] = False

    num_classes: int
    multilabel: bool
    pad_id: int  # id of the padding token
    weight_gaps: WeightGaps = WeightGaps()  # weights that are only in the network, or only in its pretrained folder
    init_args: dict[str, Any]  # constructor arguments (primitives), from which checkpoints rebuild the network

    def __new__(cls, *args: Any, **kwargs: Any) -> Classifier:
        self = super().__new__(cls)
        # copying an object calls __new__ without arguments, so `bind_partial` is used, which allows missing arguments.
        # If arguments are missing in a normal call, __init__ reports them
        bound = inspect.signature(cls.__init__).bind_partial(self, *args, **kwargs)
        bound.apply_defaults()
        # nn.Module.__init__ has not run yet, so the attribute is set without nn.Module.__setattr__
        object.__setattr__(self, "init_args", {k: v for k, v in bound.arguments.items() if k != "self"})
        return self

    @abstractmethod
    def embed(self, inputs: TextInputs) -> Tensor:
        """Returns the token embeddings [B, T, D] with respect to which gradients are taken."""

    @abstractmethod
    def forward(
        self,
        inputs: TextInputs,
        inputs_embeds: Tensor | None = None,
        *,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> ClassifierOutput:
        """Returns the logits, and the readout: the weights with which the head averages the last hidden state.

        If `inputs_embeds` [B, T, D] is given, it replaces `embed(inputs)`.

        Raises:
            ValueError: attentions are requested, but `set_attention("eager")` was not called or padding is on the left;
                or `inputs_embeds` and `inputs` differ in the number of rows or tokens.
        """

    @property
    @abstractmethod
    def embedding_matrix(self) -> Tensor:
        """Word embedding table [V, D]."""

    @abstractmethod
    def head_parameters(self) -> list[nn.Parameter]:
        """Returns the head's parameters. Usually they start at random, so they may need a higher learning rate."""

    def encoder_layers(self) -> list[EncoderLayer]:
        """Returns the encoder's layers, first layer first, with the roles of their modules (see EncoderLayer).

        Raises:
            ValueError: the architecture's layers cannot be decomposed.
        """
        raise ValueError(f"{type(self).__name__} has no layers that can be decomposed: choose another method")

    def head_layers(self) -> list[Callable[[Tensor], Tensor]]:
        """Returns the head's layers in the order in which they are applied.

        Together they map `readout @ last hidden state`, which has shape [B, 1 or C, D], to logits.

        Raises:
            ValueError: the architecture's head cannot be decomposed.
        """
        raise ValueError(f"{type(self).__name__} has no head that can be decomposed: choose another method")

    @abstractmethod
    def set_attention(self, implementation: Literal["eager", "sdpa"]) -> None:
        """Chooses the attention kernel. "eager" supports attentions and second derivatives; "sdpa" is faster."""

    @property
    @abstractmethod
    def attention_implementation(self) -> str:
        """Name of the attention kernel in use."""

    def check_length(self, num_tokens: int, subject: str) -> None:
        """Raises ValueError if a text of `num_tokens` tokens is too long. The message calls the text `subject`.

        By default, no text is too long.
        """

    def check_vocabulary(self, num_ids: int | None) -> None:
        """Raises ValueError if the embedding table has fewer rows than the data's encoder has token ids (`num_ids`).

        Nothing is checked if this number is not known.

        Example:
            >>> from lightning_xai.models.hf_classifier import random_bert
            >>> random_bert().check_vocabulary(21)
            Traceback (most recent call last):
            ValueError: the data's encoder has 21 token ids, but the embedding table has only 20 rows: use the \
network's own tokenizer, or call resize_token_embeddings(21) and save the network before training
        """
        rows = self.embedding_matrix.shape[0]
        if num_ids is not None and num_ids > rows:
            raise ValueError(
                f"the data's encoder has {num_ids} token ids, but the embedding table has only {rows} rows: use the "
                f"network's own tokenizer, or call resize_token_embeddings({num_ids}) and save the network before "
                "training"
            )

    def check_embeds(self, inputs: TextInputs, inputs_embeds: Tensor | None) -> None:
        """Raises ValueError if `inputs_embeds` [B, T, D] and `inputs` differ in the number of rows or tokens."""
        if inputs_embeds is not None and inputs_embeds.shape[:2] != inputs.input_ids.shape:
            raise ValueError(
                f"inputs_embeds has shape {list(inputs_embeds.shape)}, but input_ids has shape "
                f"{list(inputs.input_ids.shape)}: repeat the inputs as often as their embeddings"
            )

    def architecture(self) -> dict[str, Any]:
        """Returns constructor arguments (primitives) that rebuild this network without its pretrained weights."""
        return dict(self.init_args)

    def probabilities(self, logits: Tensor) -> Tensor:
        """Returns class probabilities [B, C] in float32: sigmoid if multi-label, softmax otherwise.

        Example:
            >>> from lightning_xai.models.hf_classifier import random_bert
            >>> random_bert().probabilities(torch.zeros(1, 2)).tolist()
            [[0.5, 0.5]]
        """
        logits = logits.float()
        return logits.sigmoid() if self.multilabel else logits.softmax(dim=-1)

    @torch.no_grad()
    def predict(
        self,
        inputs: TextInputs,
        embed_mask: Tensor | None = None,
        *,
        classes: Tensor | None = None,
        chunk_size: int | None = None,
    ) -> Tensor:
        """Returns probabilities without gradients: [B, C] for all classes, or [B, K] for the given `classes`.

        Texts of similar length share a forward pass.

        Args:
            embed_mask: [B, T] bool; where it is False, embeddings are set to 0.
            classes: [B, K] long, the classes whose probabilities are returned; None for all. A multi-label network with
                `reads_by_class` computes only these classes.
            chunk_size: largest number of rows in one forward pass; None lets the device decide.

        Example:
            >>> from lightning_xai.models.hf_classifier import random_bert
            >>> network, inputs = random_bert(), TextInputs.of_ids([[1, 5, 2], [1, 6, 7, 2]])
            >>> torch.allclose(network.predict(inputs, chunk_size=1), network.probabilities(network(inputs).logits))
            True
        """
        lengths = inputs.attention_mask.sum(dim=1)
        order = lengths.argsort(descending=True, stable=True)
        parts = []
        for packed in packed_rows(lengths[order].cpu(), chunk_size, inputs.device, differentiated=False):
            rows = order[packed]
            chunk = inputs[rows].trim()
            embeds = None
            if embed_mask is not None:
                keep = embed_mask[rows][:, : chunk.input_ids.shape[1]]
                embeds = self.embed(chunk) * keep.unsqueeze(-1)
            wanted = None if classes is None else classes[rows]
            if self.multilabel:
                parts.append(self.probabilities(logits_only(self, chunk, embeds, classes=wanted)))
            else:  # softmax needs the logits of all classes
                probs = self.probabilities(logits_only(self, chunk, embeds))
                parts.append(probs if wanted is None else probs.gather(1, wanted))
        if not parts:
            return torch.zeros(0, self.num_classes if classes is None else classes.shape[1], device=inputs.device)
        return torch.cat(parts)[order.argsort()]
