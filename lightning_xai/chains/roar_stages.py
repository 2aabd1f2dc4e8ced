"""The stages of a ROAR chain: one run for each method and amount of erased tokens, and runs that all methods share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from lightning_xai.chains.stages import Stage

AmountUnit = Literal["percentage", "token"]

RANDOM = "random"  # the baseline that erases tokens in random order
EVERYTHING = "all"  # the stage that erases all tokens has this in its name instead of a method
POSITIONS = "_positions"  # a control, which sees only which positions are erased, has this after the method's name


def stage_name(method: str, amount: int, *, control: bool = False) -> str:
    """Returns the name of a stage, which is also its folder's path below the experiment folder of the first stage.

    Example:
        >>> stage_name("gradient", 30), stage_name("gradient", 30, control=True)
        ('gradient/030', 'gradient_positions/030')
    """
    return f"{method}{POSITIONS if control else ''}/{amount:03d}"


def parse_stage_name(name: str) -> tuple[str, int, bool]:
    """Reverses `stage_name`: returns the method, the amount, and whether the stage is a control.

    The network of a control sees only which positions are erased.

    Example:
        >>> parse_stage_name("gradient_positions/030")
        ('gradient', 30, True)
    """
    method, _, amount = name.partition("/")
    return method.removesuffix(POSITIONS), int(amount), method.endswith(POSITIONS)


def roar_stages(
    methods: Sequence[str],
    amounts: Sequence[int],
    *,
    amount_unit: AmountUnit,
    control: bool,
    recursive_methods: Collection[str],
    fixed_orders: Sequence[str] = (RANDOM,),
) -> list[Stage]:
    """Returns the stages of a chain in this order: nothing erased, all erased, fixed orders, methods, controls.

    Args:
        methods: names of attribution methods.
        amounts: how much to erase, in ascending order: percentages of the tokens, or counts of tokens.
        amount_unit: unit of `amounts`. A stage in which all tokens are erased exists only for "percentage".
        control: whether to add control stages, whose networks see only which positions are erased.
        recursive_methods: names of the methods that score the tokens anew with each run's network, to choose the tokens
            that the next run erases. Other methods score them once, with the network that is trained on all tokens.
        fixed_orders: names of erasure orders that do not depend on a network, such as "random".

    Example:
        >>> options = {"amount_unit": "percentage", "control": False, "recursive_methods": ["gradient"]}
        >>> [stage.name for stage in roar_stages(["gradient"], [50], **options)]
        ['', 'all/100', 'random/050', 'gradient/050']
    """
    erased = "{} %" if amount_unit == "percentage" else "{} tokens"
    stages = [Stage("", f"all methods, {erased.format(0)}", "root")]
    if amount_unit == "percentage":
        name = stage_name(EVERYTHING, 100)
        stages.append(Stage(name, "all methods, 100 %", RANDOM, erasures=name))
    for method in [*fixed_orders, *methods]:
        for before, amount in zip([0, *amounts], amounts, strict=False):
            stages.append(
                Stage(
                    stage_name(method, amount),
                    f"{method}, {erased.format(amount)}",
                    RANDOM if method in fixed_orders else method,
                    erasures=stage_name(method, amount),
                    writer=stage_name(method, before) if before and method in recursive_methods else "",
                )
            )
    return [*stages, *(_control_of(stage) for stage in stages if control and stage.group in methods)]


def _control_of(stage: Stage) -> Stage:
    """Returns the control of `stage`: a stage whose network sees only which positions `stage` erases."""
    method, amount, _ = parse_stage_name(stage.name)
    return Stage(
        stage_name(method, amount, control=True),
        f"positions of {stage.title}",
        RANDOM,
        erasures=stage.erasures,
        removal="positions",
        writer=stage.writer,
    )
