"""Recognizes library errors that the user can correct. All other library errors are shown with a traceback."""

from __future__ import annotations

import traceback
from typing import NamedTuple

from lightning_xai.commands.parser.choices import shortened

SETTINGS_CODE = (  # Lightning's modules that check users' settings; errors elsewhere may be bugs of this package
    "trainer/setup.py", "trainer/trainer.py", "trainer/connectors/accelerator_connector.py",
    "trainer/connectors/callback_connector.py", "trainer/connectors/data_connector.py", "pytorch/callbacks/",
    "pytorch/loops/", "pytorch/strategies/", "pytorch/plugins/", "pytorch/profilers/", "pytorch/accelerators/",
    "lightning/fabric/",
)  # fmt: skip


class CorrectableError(NamedTuple):
    """A kind of library error that the user can correct.

    Args:
        error: name of the error's class.
        origins: parts of paths. The path of the file that raises the error must contain one of them; () allows any
            file.
        remedy: advice for the user.

    Example:
        >>> CorrectableError("OutOfMemoryError", (), "lower batch_size").error
        'OutOfMemoryError'
    """

    error: str
    origins: tuple[str, ...]
    remedy: str


TABLE = (
    CorrectableError(
        "MisconfigurationException",
        SETTINGS_CODE,
        "correct this setting of `trainer` or `checkpoint`; run.py fit --help lists all settings",
    ),
    CorrectableError("RuntimeError", ("pytorch/callbacks/early_stopping.py",), "correct `monitor` of EarlyStopping"),
    CorrectableError(
        "OutOfMemoryError",
        (),
        "lower batch_size, eval_batch_size or max_tokens_per_batch in data.init_args, or chunk_size of the method",
    ),
)


def library_message(error: BaseException) -> str | None:
    """Returns a one-line message with a remedy for a library's error, or None if the error is not in `TABLE`.

    Example:
        >>> print(library_message(RuntimeError("expected scalar type Float")))
        None
    """
    frames = traceback.extract_tb(error.__traceback__)
    origin = frames[-1].filename.replace("\\", "/") if frames else ""
    for row in TABLE:
        if type(error).__name__ == row.error and (not row.origins or any(part in origin for part in row.origins)):
            return f"{shortened(str(error), 200)}; {row.remedy}"
    return None
