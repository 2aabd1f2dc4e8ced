"""Trains text classifiers, explains their predictions and measures the explanations.

The names in `__all__` are imported from lightning_xai.api when they are first used.
"""

__all__ = [  # noqa: F822 - `__getattr__` provides these names
    "Explanations",
    "Run",
    "check_method",
    "check_metric",
    "check_model",
    "check_objective",
    "check_term",
    "check_source",
    "load_run",
]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lightning_xai import api

    return getattr(api, name)


def __dir__():
    return sorted({*globals(), *__all__})
