"""The help of all commands. This module imports no library, so that the help is printed without delay."""

from __future__ import annotations

COMMANDS = {
    "fit": (
        "train a network, then test, explain and measure it",
        "fit --config tm.yaml",
    ),
    "validate": (
        "print the results on the validation split",
        "validate --config runs/tm/seed0/config.yaml",
    ),
    "test": (
        "test and explain a trained network, and measure its explanations",
        "test --config runs/tm/seed0/config.yaml",
    ),
    "predict": (
        "predict the examples of a split, and write classes and probabilities to a file",
        "predict --config runs/tm/seed0/config.yaml",
    ),
    "search": (
        "try settings of a configuration in many short runs",
        "search --config search/aml.yaml",
    ),
    "data": (
        "encode data before the runs that need them; list or remove encoded data",
        "data --config tm.yaml",
    ),
    "explain": (
        "explain new texts with a trained network",
        'explain --ckpt runs/tm/seed0 --text "The battery died."',
    ),
    "racu": (
        "compare the ROAR curves of finished chains",
        "racu runs/roar",
    ),
    "compare": (
        "compare results of finished experiments: tables, spread over seeds, correlations",
        "compare runs/tm runs/igr",
    ),
    "stability": (
        "compare the explanations of finished runs",
        "stability runs/tm/seed0 runs/tm/seed1",
    ),
    "tables": (
        "compare several models by their means over seeds, with figures",
        "tables runs/supervised_attention runs/tm --supervised supervised_attention",
    ),
}
MODULES = (
    "search",
    "data",
    "explain",
    "racu",
    "compare",
    "stability",
    "tables",
)  # commands whose code is in lightning_xai.commands.<name of the command>


def overview(program: str = "run.py") -> str:
    """Returns the help text: each command with an example, and where to find more help.

    Args:
        program: name by which the user starts the commands.

    Example:
        >>> print(overview().splitlines()[0])
        usage: run.py COMMAND [OPTIONS]
    """
    lines = [f"usage: {program} COMMAND [OPTIONS]", ""]
    for name, (purpose, example) in COMMANDS.items():
        lines += [f"  {name:<10} {purpose}", f"  {'':<10} {program} {example}"]
    return "\n".join(
        [
            *lines,
            "",
            f"{program} COMMAND --help lists the options of a command.",
            f"{program} --help CLASS lists the arguments of a class, such as Supervised, Files or IntegratedGradients.",
            "configs/README.md lists all configurations.",
        ]
    )


def unknown_command(name: str) -> str:
    """Returns the error message for a word that is not a command.

    Example:
        >>> unknown_command("fti")
        'fti is not a command: choose one of fit, validate, test, predict, search, data, explain, racu, compare, \
stability, tables'
    """
    return f"{name} is not a command: choose one of {', '.join(COMMANDS)}"
