"""The runs of a ROAR chain: one for each method and amount of erased tokens, and those that several methods share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from lightning_xai.chains.stages import Stage

Step = Literal["percentage", "token"]

RANDOM = "random"  # the order that all methods are compared with
EVERYTHING = "all"  # stands for a method in the run that erases all tokens
POSITIONS = "_positions"  # ends the name of a control, which trains on the positions of erasures alone


def stage_name(method: str, amount: int, *, control: bool = False) -> str:
    """Returns a stage's folder below the root's experiment.

    Example:
        >>> stage_name("gradient", 30), stage_name("gradient", 30, control=True)
        ('gradient/030', 'gradient_positions/030')
    """
    return f"{method}{POSITIONS if control else ''}/{amount:03d}"


def parse_stage_name(name: str) -> tuple[str, int, bool]:
    """Returns method, amount and whether it is a control; the inverse of `stage_name`.

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
    step: Step,
    control: bool,
    recursive_methods: Collection[str],
    fixed_orders: Sequence[str] = (RANDOM,),
) -> list[Stage]:
    """Returns the runs of a chain: nothing erased, all erased, the fixed orders, then method by method.

    Args:
        methods: names of attribution methods.
        amounts: percentages or numbers of erased tokens, ascending.
        step: unit of `amounts`; only percentages have a run that erases all tokens.
        control: whether runs on the positions alone follow.
        recursive_methods: methods of which every run erases for the next one; the root erases for all other runs.
        fixed_orders: names of orders that no network decides.

    Example:
        >>> options = {"step": "percentage", "control": False, "recursive_methods": ["gradient"]}
        >>> [stage.name for stage in roar_stages(["gradient"], [50], **options)]
        ['', 'all/100', 'random/050', 'gradient/050']
    """
    erased = "{} %" if step == "percentage" else "{} tokens"
    stages = [Stage("", f"all methods, {erased.format(0)}", "root")]
    if step == "percentage":
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
    """Returns the stage that trains on the positions of a stage's erasures."""
    method, amount, _ = parse_stage_name(stage.name)
    return Stage(
        stage_name(method, amount, control=True),
        f"positions of {stage.title}",
        RANDOM,
        erasures=stage.erasures,
        erasure="positions",
        writer=stage.writer,
    )
