"""How scores are compared with rationales: defaults for each attribution method, and a check of the settings."""

from __future__ import annotations

from typing import NamedTuple

from lightning_xai.attributions.alti import ALTI
from lightning_xai.attributions.attention import Attention
from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.attributions.decompx_reverse import DecompXReverse
from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.integrated_gradients import IntegratedGradients
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.objectives.terms.guidance_scores import GuidanceLoss, GuidanceSign, Normalization, Target
from lightning_xai.objectives.terms.guided_rows import Unannotated


class GuidanceSettings(NamedTuple):
    """How scores and rationales are transformed before they are compared; see `ExplanationGuidance`.

    Example:
        >>> str(GuidanceSettings(normalization="l2", sign="absolute"))
        'sign absolute, scaling 1, normalization l2, target distribution, unannotated leave_out'
    """

    normalization: Normalization = "none"
    scaling: float = 1.0
    sign: GuidanceSign = "keep"
    target: Target = "distribution"
    unannotated: Unannotated = "leave_out"

    def __str__(self) -> str:
        return (
            f"sign {self.sign}, scaling {self.scaling:g}, normalization {self.normalization}, target {self.target}, "
            f"unannotated {self.unannotated}"
        )


def default_settings(method: AttributionMethod, score: GuidanceLoss) -> GuidanceSettings:
    """Returns the default settings for a method. For methods in Ferreira et al. (2024), they are the paper's settings.

    Some settings depend on `score`: "bce" needs binary targets, and "kl" needs scores and targets that sum to 1. With
    "kl" and "order", texts without evidence are left out, since their loss is always 0 and would only lower the mean.

    Example:
        >>> str(default_settings(Attention(), "mae"))
        'sign keep, scaling 100, normalization softmax, target distribution, unannotated leave_out'
    """
    if isinstance(method, Attention):
        settings = GuidanceSettings(normalization="softmax", scaling=100.0)
    elif _sums_to_one(method):
        settings = GuidanceSettings()
    elif method.has_sign or isinstance(method, InputXGradient | IntegratedGradients | DecompXReverse):
        settings = GuidanceSettings("l2", sign="absolute", target="binary", unannotated="empty_target")
    else:
        settings = GuidanceSettings(normalization="sum")
    if score == "bce":
        return settings._replace(target="binary")
    if score == "kl" and settings.normalization == "l2":
        settings = settings._replace(normalization="sum", target="distribution")
    return settings._replace(unannotated="leave_out") if score in ("kl", "order") else settings


def check_settings(method: AttributionMethod, score: GuidanceLoss, settings: GuidanceSettings) -> None:
    """Raises ValueError if the loss `score` is not defined for the method's scores with these settings.

    Example:
        >>> check_settings(Attention(), "mae", default_settings(Attention(), "mae"))
        >>> check_settings(InputXGradient("sum"), "order", GuidanceSettings())
        Traceback (most recent call last):
        ValueError: `score: order` needs scores without a sign, unlike those of InputXGradient: set `sign: absolute`
    """
    name = type(method).__name__
    if score in ("kl", "bce", "order"):
        if method.has_sign and settings.sign == "keep" and settings.normalization != "softmax":
            raise ValueError(
                f"`score: {score}` needs scores without a sign, unlike those of {name}: set `sign: absolute`"
            )
    is_distribution = settings.normalization in ("softmax", "sum") or (
        settings.normalization == "none" and settings.scaling == 1 and _sums_to_one(method)
    )
    if score == "kl" and not is_distribution:
        raise ValueError(f"`score: kl` needs scores that sum to 1, unlike those of {name}: set `normalization: sum`")
    if score == "kl" and settings.target != "distribution":
        raise ValueError(f"`score: kl` does not suit `target: {settings.target}`: set `target: distribution`")
    if score == "bce" and not is_distribution and settings.normalization != "l2":
        raise ValueError(f"`score: bce` needs scores of at most 1, unlike those of {name}: set `normalization: l2`")


def _sums_to_one(method: AttributionMethod) -> bool:
    return isinstance(method, Attention | AttentionRollout | ALTI)
