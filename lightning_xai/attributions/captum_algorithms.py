"""Tables of captum's algorithms: how `Captum` calls an algorithm and counts its passes, or why `Captum` refuses it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from lightning_xai.types import Passes

# function of the number of explainable tokens and of all arguments of the algorithm, including defaults; returns the
# number of passes for one example and class
CountPasses = Callable[[int, dict[str, Any]], Passes]

# arguments that a user cannot set, because `Captum` sets them, or because they are functions, which YAML cannot hold
GIVEN_ARGUMENTS = frozenset(
    "self inputs target baselines additional_forward_args feature_mask layer_mask layer_baselines return_input_shape "
    "return_convergence_delta forward_func layer device_ids attribution_method show_progress kwargs abs "
    "interpretable_model similarity_func perturb_func".split()
)


def captum_class(name: str) -> Any:
    """Returns the class `name` of captum.attr. captum is imported only here, so that commands without it start faster.

    Example:
        >>> captum_class("Saliency").__name__
        'Saliency'
    """
    return getattr(import_module("captum.attr"), name)


@dataclass(frozen=True)
class Algorithm:
    """How the attribution method `Captum` calls one of captum's algorithms.

    Attributes:
        features: "embeds" if the algorithm explains embeddings [B, T, D], "layer" if the algorithm explains the output
            of a layer, "tokens" if the algorithm replaces token ids.
        count: function that counts the passes for one example and class.
        draws: whether the algorithm draws random numbers. If so, `Captum` explains one example at a time.
        is_complete: whether the scores of a text should add up to the logit of the input minus the logit of the
            baseline. If so, captum's convergence delta is the error of this sum.
        averages_tokens: whether scores depend on an average over the tokens of a text, which padding would change.
        masks_tokens: whether the algorithm needs a mask that assigns each element of a layer's output to a token.

    Example:
        >>> ALGORITHMS["Saliency"].features, ALGORITHMS["Saliency"].count(7, {})
        ('embeds', Passes(forward=1, backward=1))
    """

    features: Literal["embeds", "layer", "tokens"]
    count: CountPasses
    draws: bool = False
    is_complete: bool = False
    averages_tokens: bool = False
    masks_tokens: bool = False

    @property
    def takes_batches(self) -> bool:
        """Whether one call of the algorithm may explain several padded texts."""
        return self.features != "tokens" and not (self.draws or self.averages_tokens or self.masks_tokens)


def _one_gradient(num_tokens: int, options: dict[str, Any]) -> Passes:
    return Passes(forward=1, backward=1)


def _path(more_forwards: int, more_points: int = 0) -> CountPasses:
    """Returns a function that counts the passes of an algorithm that integrates along a path.

    Such an algorithm makes one forward and one backward pass for each of n_steps + `more_points` points. It makes
    `more_forwards` further forward passes to compute the logits at both ends of the path and, for some layer
    algorithms, the layer's output at both ends.
    """

    def count(num_tokens: int, options: dict[str, Any]) -> Passes:
        points = options["n_steps"] + more_points
        return Passes(forward=points + more_forwards, backward=points)

    return count


def _samples(name: str, forwards: int = 1) -> CountPasses:
    return lambda num_tokens, options: Passes(forward=forwards * options[name], backward=options[name])


def _forwards(count: Callable[[int, dict[str, Any]], int]) -> CountPasses:
    return lambda num_tokens, options: Passes(forward=count(num_tokens, options), backward=0)


def num_windows(num_tokens: int, options: dict[str, Any]) -> int:
    """Returns the number of windows that captum's Occlusion moves over `num_tokens` tokens.

    Example:
        >>> num_windows(7, {"sliding_window_shapes": 3, "strides": 2})
        3
    """
    return 1 + math.ceil((num_tokens - min(options["sliding_window_shapes"], num_tokens)) / (options["strides"] or 1))


ALGORITHMS: dict[str, Algorithm] = {
    "Saliency": Algorithm("embeds", _one_gradient),
    "InputXGradient": Algorithm("embeds", _one_gradient),
    "IntegratedGradients": Algorithm("embeds", _path(2), is_complete=True),
    "GradientShap": Algorithm("embeds", _samples("n_samples"), draws=True),
    # NoiseTunnel calls another algorithm once for each noisy sample. Only the calls are counted here, and
    # `Captum.passes` multiplies their number by the passes of one call
    "NoiseTunnel": Algorithm("embeds", _samples("nt_samples"), draws=True),
    "LayerActivation": Algorithm("layer", _forwards(lambda t, o: 1)),
    "LayerGradientXActivation": Algorithm("layer", _one_gradient),
    "LayerGradCam": Algorithm("layer", _one_gradient, averages_tokens=True),
    "LayerIntegratedGradients": Algorithm("layer", _path(4), is_complete=True),
    "LayerConductance": Algorithm("layer", _path(2, more_points=1), is_complete=True),
    "InternalInfluence": Algorithm("layer", _samples("n_steps")),
    "LayerGradientShap": Algorithm("layer", _samples("n_samples", forwards=3), draws=True),
    "LayerFeatureAblation": Algorithm("layer", _forwards(lambda t, o: t + 3), masks_tokens=True),
    "FeatureAblation": Algorithm("tokens", _forwards(lambda t, o: 1 + t)),
    "Occlusion": Algorithm("tokens", _forwards(lambda t, o: 1 + num_windows(t, o))),
    "ShapleyValueSampling": Algorithm("tokens", _forwards(lambda t, o: 1 + o["n_samples"] * t), draws=True),
    "ShapleyValues": Algorithm("tokens", _forwards(lambda t, o: 1 + math.factorial(t) * t)),
    "Lime": Algorithm("tokens", _forwards(lambda t, o: o["n_samples"]), draws=True),
    "KernelShap": Algorithm("tokens", _forwards(lambda t, o: o["n_samples"]), draws=True),
}

NEED_SKLEARN = frozenset(["Lime", "KernelShap"])

_NO_RULES = "captum's DeepLift has no rules for GELU, softmax and LayerNorm: use this package's method DeepLift"
_RELU_ONLY = "it changes the gradient of ReLU only, so with GELU it returns the plain gradient: use Saliency"
_BATCH = "it permutes tokens between the examples of a batch, so scores depend on the batch: use FeatureAblation"
_LRP = "captum's LRP has no rule for attention: use this package's method DecompXReverse"
_NEURON = "it explains a neuron, not a class: use the layer or input version of the algorithm"
_LLM = "it explains generated text: this package explains classifiers"
_NO_ALGORITHM = "it is not an attribution algorithm"
_BASE = "it is a base class: choose one of its subclasses"

REFUSED: dict[str, str] = {
    **dict.fromkeys(["DeepLift", "DeepLiftShap", "LayerDeepLift", "LayerDeepLiftShap"], _NO_RULES),
    **dict.fromkeys(["NeuronDeepLift", "NeuronDeepLiftShap"], _NO_RULES),
    **dict.fromkeys(["GuidedBackprop", "Deconvolution", "GuidedGradCam"], _RELU_ONLY),
    **dict.fromkeys(["NeuronDeconvolution", "NeuronGuidedBackprop"], _RELU_ONLY),
    **dict.fromkeys(["FeaturePermutation", "LayerFeaturePermutation"], _BATCH),
    **dict.fromkeys(["LRP", "LayerLRP"], _LRP),
    **dict.fromkeys(["NeuronConductance", "NeuronFeatureAblation", "NeuronGradient"], _NEURON),
    **dict.fromkeys(["NeuronIntegratedGradients", "NeuronGradientShap"], _NEURON),
    **dict.fromkeys(["LLMAttribution", "LLMAttributionResult", "LLMGradientAttribution", "VLLMProvider"], _LLM),
    **dict.fromkeys(["RemoteLLMAttribution", "RemoteLLMProvider"], _LLM),
    **dict.fromkeys(["Attribution", "GradientAttribution", "PerturbationAttribution"], _BASE),
    **dict.fromkeys(["NeuronAttribution", "LayerAttribution"], _BASE),
    "LimeBase": "its similarity and perturbation are functions, which a configuration file cannot contain: use Lime",
    "DataLoaderAttribution": "it scores features over a whole data loader, not the tokens of a text",
    **dict.fromkeys(["InterpretableInput", "ImageMaskInput", "TextTemplateInput", "TextTokenInput"], _NO_ALGORITHM),
    **dict.fromkeys(["InterpretableEmbeddingBase", "TokenReferenceBase", "ProductBaselines"], _NO_ALGORITHM),
    **dict.fromkeys(["configure_interpretable_embedding_layer"], _NO_ALGORITHM),
    **dict.fromkeys(["remove_interpretable_embedding_layer", "visualization"], _NO_ALGORITHM),
    **dict.fromkeys(["Summarizer", "CommonStats", "ClassSummarizer", "SummarizerSingleTensor"], _NO_ALGORITHM),
    **dict.fromkeys(["Mean", "StdDev", "MSE", "Var", "Min", "Max", "Sum", "Count", "StatValue"], _NO_ALGORITHM),
}


def check_algorithm(name: str) -> None:
    """Raises ValueError if `Captum` cannot call captum's algorithm `name`. The message gives the reason.

    Example:
        >>> check_algorithm("Saliency")
        >>> check_algorithm("LRP")
        Traceback (most recent call last):
        ValueError: algorithm is 'LRP': captum's LRP has no rule for attention: use this package's method DecompXReverse
    """
    if name in REFUSED:
        raise ValueError(f"algorithm is {name!r}: {REFUSED[name]}")
    if name not in ALGORITHMS:
        nearest = get_close_matches(name, ALGORITHMS, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose one of {', '.join(ALGORITHMS)}"
        raise ValueError(f"algorithm is {name!r}, which captum.attr does not have: {hint}")
    if name in NEED_SKLEARN and find_spec("sklearn") is None:
        raise ValueError(f"algorithm is {name!r}, for which captum needs scikit-learn: pip install scikit-learn")


def call_defaults(name: str) -> dict[str, Any]:
    """Returns the arguments that a user may set for an algorithm, with captum's defaults.

    These are arguments of the algorithm's constructor or of its method `attribute`. Arguments that `Captum` sets are
    not included. For Occlusion, whose window has no default in captum, the default is a window of one token.

    Example:
        >>> call_defaults("InputXGradient")
        {}
        >>> call_defaults("Occlusion")
        {'sliding_window_shapes': 1, 'strides': None, 'perturbations_per_eval': 1}
    """
    algorithm = captum_class(name)
    defaults: dict[str, Any] = {"sliding_window_shapes": 1} if name == "Occlusion" else {}
    for function in (algorithm.__init__, algorithm.attribute):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name not in GIVEN_ARGUMENTS and parameter.default is not parameter.empty:
                defaults[parameter.name] = parameter.default
    return defaults
