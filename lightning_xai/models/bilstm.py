"""A bidirectional LSTM whose states are read by additive attention."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lightning_xai.functional.choices import require_choices
from lightning_xai.functional.text.padding import right_padding_order, take_columns
from lightning_xai.models.base import Classifier, check_num_classes
from lightning_xai.models.lstm_kernels import fused_kernels, onednn_computes
from lightning_xai.types import ClassifierOutput, TextInputs

Kernel = Literal["eager", "sdpa"]
MaskRow = Literal["zero", "random"]


class BiLSTM(nn.Module):
    """Two LSTMs, one in each direction, that read the kept tokens of each row.

    Padding may be before, between or after these tokens.

    Rows are padded, not packed, because on CPUs the backward pass of packed rows takes 2 times as long at 40 tokens,
    and 11 times as long at 300 tokens.

    Args:
        embedding_size: D, the size of an embedding.
        hidden_size: H, the size of a state in each direction.

    Example:
        >>> encoder, embeds = BiLSTM(embedding_size=2, hidden_size=3), torch.ones(1, 4, 2)
        >>> states, last = encoder(embeds, torch.tensor([[False, True, True, False]]))
        >>> alone, _ = encoder(embeds[:, 1:3], torch.ones(1, 2, dtype=torch.bool))
        >>> torch.allclose(states[:, 1:3], alone), last.shape
        (True, torch.Size([1, 6]))
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.left_to_right = nn.LSTM(embedding_size, hidden_size, batch_first=True)
        self.right_to_left = nn.LSTM(embedding_size, hidden_size, batch_first=True)

    def forward(self, embeds: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the tokens' states [B, T, 2H], and the last states of both directions, concatenated to [B, 2H].

        States are computed as if only the kept tokens existed.

        In a row without kept tokens, the last states are 0. The states of tokens that are not kept are finite, but have
        no meaning.

        Args:
            embeds: [B, T, D]; the embeddings of tokens that are not kept have no effect.
            keep: [B, T] bool, True at the tokens that are read.
        """
        order, lengths = right_padding_order(keep), keep.sum(dim=1, keepdim=True)
        longest = max(int(lengths.max()), 1)
        embeds = embeds[:, :longest] if order is None else take_columns(embeds, order[:, :longest])
        position = torch.arange(longest, device=keep.device)
        kept = position < lengths
        embeds = torch.where(kept.unsqueeze(-1), embeds, 0.0)
        # [B, longest] column indices that reverse the order of the kept tokens and leave the other columns in place
        reverse = torch.where(kept, lengths - 1 - position, position)
        to_right, _ = self.left_to_right(embeds)
        to_left, _ = self.right_to_left(take_columns(embeds, reverse))
        states = torch.cat([to_right, take_columns(to_left, reverse)], dim=-1)
        last = take_columns(to_right, (lengths - 1).clamp(min=0)).squeeze(1)
        last = torch.cat([last, states[:, 0, to_right.shape[-1] :]], dim=-1)  # from right to left, token 0 is read last
        states = nn.functional.pad(states, (0, 0, 0, keep.shape[1] - longest))
        if order is not None:
            states = take_columns(states, order.argsort(dim=1))
        return states, torch.where(lengths > 0, last, 0.0)


def attention_weights(scores: Tensor, preferred: Tensor, allowed: Tensor) -> Tensor:
    """Returns attention weights [B, T] that sum to 1 over the preferred tokens of each row.

    A row without preferred tokens attends to its allowed tokens. In a row without either, all weights are 0.

    Args:
        scores: [B, T], the inputs of the softmax that computes the weights.
        preferred: [B, T] bool, the tokens that a row attends to if it has any such tokens.
        allowed: [B, T] bool, the tokens that a row without preferred tokens attends to.

    Example:
        >>> everywhere = torch.ones(1, 3, dtype=torch.bool)
        >>> attention_weights(torch.zeros(1, 3), torch.tensor([[True, True, False]]), everywhere).tolist()
        [[0.5, 0.5, 0.0]]
    """
    keep = torch.where(preferred.any(dim=1, keepdim=True), preferred, allowed)
    empty = ~keep.any(dim=1, keepdim=True)
    # at least float32, since weights over thousands of tokens would not sum to 1 in half precision
    precision = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.masked_fill(~(keep | empty), -torch.inf).softmax(dim=-1, dtype=precision)
    return weights.masked_fill(empty, 0.0)


class BiLSTMAttention(Classifier):
    """A classifier that sums the states h of a BiLSTM with attention weights alpha = softmax(v . tanh(W h + b)).

    A network for pairs of texts has two encoders, and only the main text gets attention: alpha = softmax(v . u_i) with
    u_i = tanh(W_x h_x,i + W_y h_y + b), where h_x,i are the states of the main text, and h_y are the last states of the
    auxiliary text. The encoder reads special tokens, but they get attention only if all tokens of the text are special.

    Args:
        vocab_size: number V of rows of the embedding table. Configuration files leave it out, since it comes from the
            data.
        num_classes: number of classes C.
        multilabel: whether an example can have several classes (sigmoid), or has exactly one (softmax).
        paired: whether token_type_ids distinguish a main text (0) from an auxiliary text (1). If False, all tokens are
            taken as one text.
        embedding_size: D, the size of an embedding.
        hidden_size: H, the size of a state in each direction, and the size of the attention's hidden layer.
        pad_id: id of the padding token, whose row of the embedding table stays 0.
        mask_id: id of the mask token; None if the vocabulary has none. Configuration files leave out `mask_id` and
            `pad_id`, since both come from the data's encoder.
        mask_row: initial values of the mask token's row: "zero", or "random" (drawn like the row of a word without a
            vector).
        word_vectors: [V, D] pretrained vectors. A row of NaN marks a word without a vector, whose row in the table is
            drawn from N(0, 1). If None, all rows are drawn from N(0, 1). Configuration files leave `word_vectors` out,
            since they come from the data.

    Raises:
        ValueError: a size is not positive, an id is outside the vocabulary, or `word_vectors` does not have the table's
            shape. `forward` raises ValueError if a network for pairs gets no token_type_ids.

    Example:
        >>> network = BiLSTMAttention(vocab_size=9, embedding_size=2, hidden_size=3).eval()
        >>> output = network(TextInputs.of_ids([[1, 5, 6, 2]], special_ids=[1, 2]))
        >>> output.logits.shape, (output.readout > 0).tolist()
        (torch.Size([1, 2]), [[[False, True, True, False]]])

    Reference: Jain and Wallace (2019), "Attention is not Explanation", arXiv 1902.10186, section 3; the formulas are in
    Madsen et al. (2022), "Evaluating the Faithfulness of Importance Measures in NLP by Recursively Masking Allegedly
    Important Tokens and Retraining", arXiv 2110.08412, appendix C.1.
    Differs: for pairs, the paper says only that a dense layer transforms the context. As in the released code of both
    papers, the logits here are O tanh(D_x context + D_y h_y) with matrices O, D_x and D_y, and both W_x and W_y have a
    bias. For SST, Madsen et al. initialize the rows of words without a vector with 0.
    """

    readout_is_attention: ClassVar[bool] = True

    def __init__(
        self,
        vocab_size: int,
        num_classes: int = 2,
        multilabel: bool = False,
        *,
        paired: bool = False,
        embedding_size: int = 300,
        hidden_size: int = 128,
        pad_id: int = 0,
        mask_id: int | None = 3,
        mask_row: MaskRow = "zero",
        word_vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        check_num_classes(num_classes, multilabel=multilabel)
        if vocab_size is None:  # from data without training texts
            raise ValueError(
                "vocab_size is missing, because the data have no training texts from which to learn words: add them, "
                "give the encoder fixed words, or test a trained run by evaluate.yaml, which takes its vocabulary"
            )
        for name, size in {"embedding_size": embedding_size, "hidden_size": hidden_size}.items():
            if size < 1:
                raise ValueError(f"{name} is {size}: give at least 1")
        for name, row in {"pad_id": pad_id, "mask_id": mask_id}.items():
            if row is not None and not 0 <= row < vocab_size:
                raise ValueError(f"{name} is {row}: the vocabulary has ids 0 to {vocab_size - 1}")
        require_choices({"mask_row": MaskRow}, {"mask_row": mask_row})
        self.num_classes = num_classes
        self.multilabel = multilabel
        self.paired = paired
        self.pad_id = pad_id
        self._kernel: Kernel = "sdpa"
        self.embedding = nn.Embedding(vocab_size, embedding_size, padding_idx=pad_id)
        self.encoder = BiLSTM(embedding_size, hidden_size)
        self.attention = nn.Linear(2 * hidden_size, hidden_size)
        self.query = nn.Linear(hidden_size, 1, bias=False)
        if paired:
            self.auxiliary_encoder = BiLSTM(embedding_size, hidden_size)
            self.auxiliary_attention = nn.Linear(2 * hidden_size, hidden_size)
            self.decoder = nn.Linear(2 * hidden_size, hidden_size)
            self.auxiliary_decoder = nn.Linear(2 * hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size if paired else 2 * hidden_size, num_classes)
        self._start_rows(word_vectors, mask_id if mask_row == "zero" else None)
        # a checkpoint holds the trained table, so the initial vectors need not be stored
        self.init_args["word_vectors"] = None

    @torch.no_grad()
    def _start_rows(self, word_vectors: Tensor | None, zero_row: int | None) -> None:
        """Copies word vectors into the embedding table, and sets the padding token's row and row `zero_row` to 0."""
        table = self.embedding.weight  # drawn from N(0, 1); the padding token's row is 0
        if word_vectors is not None:
            if word_vectors.shape != table.shape:
                rows, width = word_vectors.shape
                raise ValueError(
                    f"word vectors are {rows} x {width}, but the embedding table is {table.shape[0]} x "
                    f"{table.shape[1]}: set the network's embedding_size to {width}"
                )
            table.copy_(torch.where(word_vectors.isnan(), table, word_vectors))
            table[self.pad_id] = 0.0
        if zero_row is not None:
            table[zero_row] = 0.0

    @property
    def embedding_matrix(self) -> Tensor:
        return self.embedding.weight

    def embed(self, inputs: TextInputs) -> Tensor:
        return self.embedding(inputs.input_ids.masked_fill(~inputs.attention_mask, self.pad_id))

    def head_parameters(self) -> list[nn.Parameter]:
        encoders = ("embedding.", "encoder.", "auxiliary_encoder.")
        return [parameter for name, parameter in self.named_parameters() if not name.startswith(encoders)]

    @property
    def attention_implementation(self) -> str:
        return self._kernel

    def set_attention(self, implementation: Kernel) -> None:
        """Chooses the LSTM's kernels: "sdpa" for fused kernels, "eager" for plain kernels.

        For second derivatives, use plain kernels: cuDNN cannot compute second derivatives, and oneDNN takes 2 to
        4 times as long as plain kernels.
        """
        require_choices({"attention implementation": Kernel}, {"attention implementation": implementation})
        self._kernel = implementation

    def forward(
        self,
        inputs: TextInputs,
        inputs_embeds: Tensor | None = None,
        *,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> ClassifierOutput:
        """Returns logits [B, C] and `readout` [B, 1, T], the head's attention weights. Padding may be in any column.

        The network has no attention between tokens, so it returns no attentions. Its only hidden state [B, T, 2H] is
        the input of the head's attention. This state is 0 at padding and at tokens of the auxiliary text.
        """
        self.check_embeds(inputs, inputs_embeds)
        embeds = self.embed(inputs) if inputs_embeds is None else inputs_embeds
        main, auxiliary = self._parts(inputs)
        # in eval mode with gradients, cuDNN is off, because cuDNN's LSTMs have no backward pass in eval mode
        fused = self._kernel == "sdpa"
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else embeds.dtype
        cudnn = fused and (self.training or not torch.is_grad_enabled())
        with fused_kernels(cudnn=cudnn, onednn=fused and onednn_computes(dtype)):
            states, _ = self.encoder(embeds, main)  # [B, T, 2H]
            if self.paired:
                _, last = self.auxiliary_encoder(embeds, auxiliary)  # [B, 2H]
        hidden = self.attention(states)  # [B, T, H]
        if self.paired:
            hidden = hidden + self.auxiliary_attention(last).unsqueeze(1)
        scores = self.query(hidden.tanh()).squeeze(-1)
        readout = attention_weights(scores, main & ~inputs.special_tokens_mask, main).unsqueeze(1)  # [B, 1, T]
        context = (readout.to(states.dtype) @ states).squeeze(1)  # [B, 2H]
        if self.paired:
            context = (self.decoder(context) + self.auxiliary_decoder(last)).tanh()
        return ClassifierOutput(
            logits=self.output(context),
            readout=readout,
            hidden_states=(states * main.unsqueeze(-1),) if output_hidden_states else None,
        )

    def _parts(self, inputs: TextInputs) -> tuple[Tensor, Tensor | None]:
        """Returns two masks [B, T]: tokens of the main text, and tokens of the auxiliary text (None if not paired)."""
        if not self.paired:
            return inputs.attention_mask, None
        if inputs.token_type_ids is None:
            raise ValueError(
                "a paired network needs token_type_ids to separate the two texts: encode with VocabularyEncoder, or "
                "with a tokenizer that returns token_type_ids"
            )
        auxiliary = inputs.token_type_ids > 0
        return inputs.attention_mask & ~auxiliary, inputs.attention_mask & auxiliary
