"""The laws (required properties) of text classifiers. `check_model` checks them for a network from any package."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from lightning_xai.functional.laws import VOCAB_SIZE, random_texts, require, require_close
from lightning_xai.functional.own_parts import require_object, require_type
from lightning_xai.models.base import Classifier
from lightning_xai.models.encoder_weights import encoder_matrices
from lightning_xai.models.output_check import check_output
from lightning_xai.types import TextInputs

TOLERANCE = 1e-10  # largest accepted difference in float64, as a fraction of max(1, largest absolute expected value)


def check_model(model: Classifier) -> None:
    """Checks, on copies of a classifier, that it keeps the laws in the docstring of Classifier.

    Args:
        model: a small classifier with random weights, at least 100 token ids, and a padding id below 100.

    Raises:
        ValueError: a law is broken; the message names the law and the remedy.

    Example:
        >>> from lightning_xai.models.bilstm import BiLSTMAttention
        >>> check_model(BiLSTMAttention(100, 3, embedding_size=4, hidden_size=4))
    """
    require_object(model, Classifier)
    says_how_it_reads(type(model))
    rows = model.embedding_matrix.shape[0]
    require(rows >= VOCAB_SIZE, f"{_name(model)} has {rows} token ids", f"build it with {VOCAB_SIZE} or more")
    for law in LAWS:
        law(copy.deepcopy(model).double().eval())


def says_how_it_reads(network_class: type[Classifier]) -> None:
    """The class sets `readout_is_attention`: True if the head attends to tokens, False if it reads fixed tokens."""
    require(
        isinstance(getattr(network_class, "readout_is_attention", None), bool),
        f"{network_class.__name__} does not define readout_is_attention",
        "set it to True in the class if the head attends to tokens, or to False if it reads fixed tokens",
    )


def embeddings_and_output_have_their_types(model: Classifier) -> None:
    """`embed` returns embeddings [B, T, D]. The output is a ClassifierOutput with logits [B, C]."""
    inputs, remedy = _texts(model), "return embeddings [B, T, D]"
    require_type(embeds := model.embed(inputs), Tensor, f"{_name(model)}.embed", remedy)
    fits = embeds.dim() == 3 and embeds.shape[:2] == inputs.input_ids.shape
    require(fits, f"{_name(model)}.embed returned shape {list(embeds.shape)}", remedy)
    check_output(model, model(inputs), len(inputs))


def readout_weighs_the_last_hidden_state(model: Classifier) -> None:
    """Hidden states are returned only on request. The head maps readout @ last hidden state to the logits."""
    inputs = _texts(model)
    output = model(inputs, output_hidden_states=True)
    rule = f"{_name(model)}: hidden states are missing, or their shape is not [B, T, D]"
    states = output.hidden_states
    shaped = states is not None and states[-1].shape[:2] == inputs.input_ids.shape == output.readout.shape[::2]
    require(shaped, rule, "return the embeddings and the output of every layer if output_hidden_states is True")
    require(model(inputs).hidden_states is None, f"{_name(model)} returns hidden states unasked", "return None instead")
    try:
        layers = model.head_layers()
    except ValueError:
        return  # the head cannot be written as a list of layers, so there is nothing to check
    assert states is not None
    pooled = output.readout @ states[-1]
    for layer in layers:
        pooled = layer(pooled)
    rule = f"{_name(model)}: head_layers map readout @ last hidden state to values that differ from the logits"
    _close(
        pooled.reshape(output.logits.shape), output.logits, rule, "return the layers in the order of the forward pass"
    )


def embeddings_give_the_same_logits(model: Classifier) -> None:
    """`model(x).logits` equals `model(x, model.embed(x)).logits`. Embeddings with another batch size are refused."""
    inputs = _texts(model)
    logits, rule = model(inputs).logits, f"{_name(model)}: logits from embeddings differ from logits from ids"
    _close(model(inputs, model.embed(inputs)).logits, logits, rule, "use inputs_embeds like the result of embed")
    _refused(lambda: model(inputs, model.embed(inputs)[:1]), f"{_name(model)}: inputs_embeds had too few rows")


def neighbors_and_padding_change_no_logit(model: Classifier) -> None:
    """Logits depend neither on the presence, side or content of padding, nor on the other texts of the batch."""
    inputs = _texts(model)
    logits, name = model(inputs).logits, _name(model)
    mask = "use attention_mask in every sum over tokens, and to compute positions"
    alone = model(inputs[1:]).logits
    _close(model(inputs[1:].trim()).logits, alone, f"{name}: padding changes logits", mask)
    _close(alone, logits[1:], f"{name}: other texts in the batch change logits", "compute each row separately")
    left = _padded_left(inputs)
    _close(model(left).logits, logits[1:], f"{name}: padding on the left changes logits", mask)
    _close(model(left, model.embed(left)).logits, logits[1:], f"{name}: padding on the left changes logits", mask)
    ids = torch.where(inputs.attention_mask, inputs.input_ids, 7)
    _close(model(replace(inputs, input_ids=ids)).logits, logits, f"{name}: ids at padding positions alter logits", mask)
    embeds = torch.where(inputs.attention_mask.unsqueeze(-1), model.embed(inputs), 100.0)
    _close(model(inputs, embeds).logits, logits, f"{name}: embeddings at padding positions alter logits", mask)


def masked_tokens_count_as_deleted(model: Classifier) -> None:
    """Masking tokens by the attention mask, even in the middle of a text, gives the same logits as deleting them."""
    text = random_texts([9], pad_id=model.pad_id)
    holes = replace(text, attention_mask=text.attention_mask & (torch.arange(9) != 3) & (torch.arange(9) != 4))
    deleted = text.map(lambda t: t[:, [0, 1, 2, 5, 6, 7, 8]] if t.dim() > 1 else t)
    rule = f"{_name(model)}: logits of a text with masked inner tokens differ from logits without these tokens"
    _close(model(holes).logits, model(deleted).logits, rule, "use attention_mask.cumsum for positions")


def pad_ids_move_no_position(model: Classifier) -> None:
    """A token inside the attention mask is treated like any other token, even if its id is the padding id."""
    inputs = _texts(model)
    ids = inputs.input_ids.clone()
    ids[:, 2] = model.pad_id
    erased = replace(inputs, input_ids=ids)
    rule = f"{_name(model)}: with the same embeddings, a padding id inside a text changes logits"
    _close(model(inputs, model.embed(erased)).logits, model(erased).logits, rule, "find padding by attention_mask only")


def readout_sums_to_one(model: Classifier) -> None:
    """Rows of the readout [B, 1 or C, T] sum to 1 over tokens. Column t belongs to token t, even with left padding."""
    inputs = _texts(model)
    readout = model(inputs).readout
    shape = list(readout.shape)
    fits = shape[0] == 2 and shape[1] in (1, model.num_classes) and shape[2] == 9
    require(fits, f"{_name(model)}: readout has shape {shape}", "return [B, 1 or C, T]")
    total = (readout * inputs.attention_mask.unsqueeze(1)).sum(dim=-1)
    rule = f"{_name(model)}: sums of the readout's rows differ from 1"
    _close(total, torch.ones(readout.shape[:2], dtype=torch.double), rule, "normalize the readout over attention_mask")
    left = _padded_left(inputs)
    rule = f"{_name(model)}: padding on the left changes the readout or the hidden states"
    remedy = "put token t into column t of readout and hidden states"
    _close(model(left).readout, readout[1:].roll(4, dims=-1), rule, remedy)
    states = model(left, output_hidden_states=True).hidden_states[-1]
    _close(states[:, 4:], model(inputs[1:], output_hidden_states=True).hidden_states[-1][:, :5], rule, remedy)


def attentions_belong_to_the_graph(model: Classifier) -> None:
    """Eager attentions are in the graph of the logits. There is one more hidden state than there are attentions.

    If attention is not eager, or if padding is on the left, asking for attentions raises ValueError.
    """
    inputs, name = _texts(model), _name(model)
    model.set_attention("eager")
    output = model(inputs, output_attentions=True, output_hidden_states=True)
    if output.attentions is None:
        return  # the network has no attention between tokens
    shapes = {tuple(state.shape) for state in output.hidden_states}
    fits = len(output.hidden_states) == len(output.attentions) + 1
    fits = fits and shapes == {(2, 9, output.hidden_states[0].shape[-1])}
    rule = f"{name}: the number or shapes {sorted(shapes)} of hidden states do not fit the attentions"
    require(fits, rule, "return the embeddings and the output of every layer")
    gradients = torch.autograd.grad(output.logits.sum(), output.attentions, allow_unused=True)
    reached = all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)
    require(reached, f"{name}: attentions are not in the graph of the logits", "return the tensors that the layers use")
    left = _padded_left(inputs)
    _refused(lambda: model(left, output_attentions=True), f"{name}: attentions were requested with left padding")
    model.set_attention("sdpa")
    _refused(lambda: model(inputs, output_attentions=True), f"{name}: attentions were requested with sdpa attention")


def kernels_give_the_same_logits(model: Classifier) -> None:
    """`attention_implementation` is the last name given to `set_attention`. "sdpa" and "eager" give the same logits."""
    inputs = _texts(model)
    model.set_attention("sdpa")
    fast = model(inputs).logits
    model.set_attention("eager")
    stored = model.attention_implementation
    require(stored == "eager", f"{_name(model)}: attention_implementation is {stored!r}", "store the last given name")
    _close(model(inputs).logits, fast, f"{_name(model)}: the attention kernel changes logits", "use the same mask")


def double_backward_reaches_encoder_weights(model: Classifier) -> None:
    """With eager attention, the norm of the logits' gradient with respect to embeddings can be differentiated again.

    The gradient of this norm is nonzero for each weight matrix of the encoder that affects logits. Embedding tables are
    excepted, because the gradient with respect to embeddings need not depend on them.
    """
    inputs, weights = _texts(model), encoder_matrices(model)
    model.set_attention("eager")
    embeds = model.embed(inputs).detach().requires_grad_()
    logits = model(inputs, embeds).logits
    first = torch.autograd.grad(logits.sum(), [embeds, *weights], create_graph=True, allow_unused=True)
    decide = [w for w, given in zip(weights, first[1:], strict=True) if given is not None and given.abs().max() > 0]
    norm = first[0].norm()
    second: Sequence[Tensor | None] = [None] * len(decide)
    if decide and norm.requires_grad:
        second = torch.autograd.grad(norm, decide, allow_unused=True)
    reached = all(g is not None and bool(g.isfinite().all()) and bool(g.abs().max() > 0) for g in second)
    rule = f"{_name(model)}: a loss on the input gradient gives no gradient for some weights of the encoder"
    require(reached, rule, "with eager attention, use only operations that can be differentiated twice")


def a_text_without_tokens_is_finite(model: Classifier) -> None:
    """A text without any token gets finite logits and gradients."""
    inputs = _texts(model)
    empty = replace(inputs, attention_mask=inputs.attention_mask & torch.tensor([[True], [False]]))
    for kernel in ("sdpa", "eager"):
        model.set_attention(kernel)
        model.zero_grad()
        logits = model(empty).logits
        logits.sum().backward()
        finite = all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
        rule = f"{_name(model)}: a text without tokens gives logits or gradients that are not finite"
        require(finite and bool(logits.isfinite().all()), rule, "clamp sums of the mask to >= 1 before a division")


def a_forward_leaves_no_hook(model: Classifier) -> None:
    """A forward pass leaves no hooks behind, even if it fails."""
    inputs = _texts(model)
    before = [len(module._forward_hooks) for module in model.modules()]
    model(inputs, model.embed(inputs))
    try:
        model(inputs, model.embed(inputs)[..., :-1])
    except RuntimeError:
        pass
    after = [len(module._forward_hooks) for module in model.modules()]
    require(after == before, f"{_name(model)}: a forward pass leaves hooks", "remove the hooks in a finally block")


def predict_is_the_forward(model: Classifier) -> None:
    """`predict` returns the probabilities of a forward pass, for any chunk size and also with an `embed_mask`."""
    inputs = random_texts([5, 9, 7, 4, 8], pad_id=model.pad_id)
    expected = model.probabilities(model(inputs).logits)
    rule = f"{_name(model)}: predict differs from forward"
    remedy = "do not override `predict`"
    require_close(model.predict(inputs, chunk_size=2), expected, rule, remedy, absolute=1e-6)
    keep = torch.ones(inputs.input_ids.shape, dtype=torch.bool)
    keep[:, 2] = False
    expected = model.probabilities(model(inputs, model.embed(inputs) * keep.unsqueeze(-1)).logits)
    require_close(model.predict(inputs, keep), expected, rule, remedy, absolute=1e-6)


def architecture_rebuilds_the_network(model: Classifier) -> None:
    """A network built from `architecture()` starts in training mode, loads the weights, and gives the same logits."""
    inputs, rule = _texts(model), f"{_name(model)}: a network built from architecture() differs"
    remedy = "return constructor arguments (only primitives) with which the same layers are built"
    try:
        twin = type(model)(**model.architecture())
    except TypeError as error:
        raise ValueError(f"{rule} ({error}): {remedy}") from error
    fresh = all(module.training for module in twin.modules()) and all(p.grad is None for p in twin.parameters())
    require(fresh, f"{_name(model)}: __init__ sets gradients or eval mode", "do not call backward or eval in __init__")
    twin = twin.double().eval()
    try:
        twin.load_state_dict(model.state_dict())
    except RuntimeError as error:
        raise ValueError(f"{rule} ({str(error).splitlines()[0]}): {remedy}") from error
    _close(twin(inputs).logits, model(inputs).logits, rule, remedy)


LAWS = (
    embeddings_and_output_have_their_types,
    embeddings_give_the_same_logits,
    neighbors_and_padding_change_no_logit,
    masked_tokens_count_as_deleted,
    pad_ids_move_no_position,
    readout_sums_to_one,
    readout_weighs_the_last_hidden_state,
    attentions_belong_to_the_graph,
    kernels_give_the_same_logits,
    double_backward_reaches_encoder_weights,
    a_text_without_tokens_is_finite,
    a_forward_leaves_no_hook,
    predict_is_the_forward,
    architecture_rebuilds_the_network,
)


def _texts(model: Classifier) -> TextInputs:
    return random_texts([9, 5], pad_id=model.pad_id)


def _padded_left(inputs: TextInputs) -> TextInputs:
    return inputs[1:].map(lambda t: t.roll(4, dims=1) if t.dim() > 1 else t)


def _name(model: Classifier) -> str:
    return type(model).__name__


def _refused(call: Callable[[], object], rule: str) -> None:
    try:
        call()
    except ValueError:
        return
    raise ValueError(f"{rule}, but forward raised no error: raise ValueError (see Classifier)")


def _close(actual: Tensor, expected: Tensor, rule: str, remedy: str) -> None:
    largest = float(expected.detach().abs().max())
    require_close(actual, expected, rule, remedy, absolute=TOLERANCE * max(largest, 1.0))
