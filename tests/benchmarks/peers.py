"""Captum's counterparts of our methods, with which the benchmark of attributions compares them.

Each function takes (method, model, inputs, targets) and returns a function that explains one class after another, as
captum does, with the settings of our method. Captum's chunks hold as many rows as ours.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import captum.attr
import torch
from torch import Tensor, nn

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.gradient_shap import GradientSHAP
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.functional.network.chunking import rows_per_forward
from lightning_xai.models.base import Classifier
from lightning_xai.types import TextInputs

Explain = Callable[[], list[Tensor]]  # a score tensor for each class


def repeated(inputs: TextInputs, rows: int) -> TextInputs:
    """Returns `rows` rows, made of copies of the batch one after another."""
    return inputs[torch.arange(rows, device=inputs.device) % len(inputs)]


def path_ends(model: Classifier, inputs: TextInputs) -> tuple[Tensor, Tensor]:
    """Returns the embeddings [B, T, D] of the baseline, all fill tokens, and of the input, without a graph."""
    return model.embed(replace(inputs, input_ids=inputs.baseline_ids)).detach(), model.embed(inputs).detach()


class OnEmbeddings(nn.Module):
    """Maps embeddings to logits; captum passes stacked copies of the batch, or the numbers of the rows it selects."""

    def __init__(self, model: Classifier, inputs: TextInputs) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs

    def forward(self, embeds: Tensor, rows: Tensor | None = None) -> Tensor:
        inputs = repeated(self.inputs, len(embeds)) if rows is None else self.inputs[rows]
        return self.model(inputs, embeds).logits


def on_ids(model: Classifier, inputs: TextInputs) -> Callable[[Tensor], Tensor]:
    """Returns a function from token ids to logits, without a gradient."""

    @torch.no_grad()
    def logits(ids: Tensor) -> Tensor:
        return model(replace(repeated(inputs, len(ids)), input_ids=ids)).logits

    return logits


def classes(targets: Tensor) -> list[Tensor]:
    return list(targets.unbind(dim=1))


def input_x_gradient(method: AttributionMethod, model: Classifier, inputs: TextInputs, targets: Tensor) -> Explain:
    explainer = captum.attr.InputXGradient(OnEmbeddings(model, inputs))

    def explain() -> list[Tensor]:
        embeds = model.embed(inputs).detach().requires_grad_()
        return [explainer.attribute(embeds, target=target) for target in classes(targets)]

    return explain


def integrated_gradients(method: AttributionMethod, model: Classifier, inputs: TextInputs, targets: Tensor) -> Explain:
    explainer = captum.attr.IntegratedGradients(OnEmbeddings(model, inputs))
    rows = torch.arange(len(inputs), device=inputs.device)
    assert isinstance(method, IntegratedGradients)
    options = {"n_steps": method.num_steps}

    def explain() -> list[Tensor]:
        start, end = path_ends(model, inputs)
        return [explainer.attribute(end, start, target, rows, **options) for target in classes(targets)]

    return explain


def gradient_shap(method: AttributionMethod, model: Classifier, inputs: TextInputs, targets: Tensor) -> Explain:
    assert isinstance(method, GradientSHAP)
    num_samples, explainer = method.num_samples, captum.attr.GradientShap(OnEmbeddings(model, inputs))
    rows = torch.arange(len(inputs), device=inputs.device)

    def explain() -> list[Tensor]:
        start, end = path_ends(model, inputs)
        options = {"n_samples": num_samples, "additional_forward_args": rows}
        return [explainer.attribute(end, start, target=target, **options) for target in classes(targets)]

    return explain


def deep_lift(method: AttributionMethod, model: Classifier, inputs: TextInputs, targets: Tensor) -> Explain:
    explainer = captum.attr.DeepLift(OnEmbeddings(model, inputs))

    def explain() -> list[Tensor]:
        start, end = path_ends(model, inputs)
        return [explainer.attribute(end.requires_grad_(), start, target=target) for target in classes(targets)]

    return explain


def versions_per_forward(inputs: TextInputs) -> int:
    """Returns the number of erased texts in one forward pass of our methods; captum's default is one."""
    return rows_per_forward(None, inputs.input_ids.shape[1], inputs.device, differentiated=False)


def occlusion(method: AttributionMethod, model: Classifier, inputs: TextInputs, targets: Tensor) -> Explain:
    explainer = captum.attr.FeatureAblation(on_ids(model, inputs))
    options = {"baselines": inputs.baseline_ids, "perturbations_per_eval": versions_per_forward(inputs)}
    return lambda: [explainer.attribute(inputs.input_ids, target=t, **options) for t in classes(targets)]


def sampled(
    explainer_class: type, method: AttributionMethod, model: Classifier, inputs: TextInputs, targets: Tensor
) -> Explain:
    explainer = explainer_class(on_ids(model, inputs))
    num_units = int(inputs.token_mask[0].sum())
    options = {
        "baselines": inputs.baseline_ids,
        "n_samples": int(method.passes(num_units, 1).forward),
        "perturbations_per_eval": versions_per_forward(inputs),
    }
    return lambda: [explainer.attribute(inputs.input_ids, target=t, **options) for t in classes(targets)]


PEERS: dict[str, Callable[[AttributionMethod, Classifier, TextInputs, Tensor], Explain]] = {
    "InputXGradient": input_x_gradient,
    "IntegratedGradients": integrated_gradients,
    "GradientSHAP": gradient_shap,
    "DeepLift": deep_lift,
    "Occlusion": occlusion,
    "LIME": partial(sampled, captum.attr.Lime),
    "KernelSHAP": partial(sampled, captum.attr.KernelShap),
}
