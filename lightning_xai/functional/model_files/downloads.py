"""Says where published weights are that are not on the Hugging Face hub. Nothing is downloaded."""

from __future__ import annotations

import re
from pathlib import Path

ROBERTA_PM = "https://dl.fbaipublicfiles.com/biolm/RoBERTa-base-PM-M3-Voc-hf.tar.gz"
RELEASED = "https://drive.google.com/file/d/1Gna1tEQqtSrBQC_2QX_1HGpZBYAFQCix"
_RELEASED_FOLDER = re.compile(r"(?:^|/)(?:unsupervised|supervised|igr|tm|pgd)/(?!seed)(?=[a-z]*[0-9])[a-z0-9]{8}$")


def download_of(path: str) -> str:
    """Returns part of a message: where the weights are that belong into a missing folder; "" if this is unknown.

    Two folders are recognized by their names: that of RoBERTa-base-PM-M3-Voc-hf, and those in the archive of Edin et
    al. (2024).

    Example:
        >>> download_of("models/bert")
        ''
        >>> download_of("models/roberta-base-pm-m3-voc-hf")
        'unpack https://dl.fbaipublicfiles.com/biolm/RoBERTa-base-PM-M3-Voc-hf.tar.gz into this folder, or '
    """
    if Path(path).name.lower() == Path(ROBERTA_PM).name.removesuffix(".tar.gz").lower():
        return f"unpack {ROBERTA_PM} into this folder, or "
    if _RELEASED_FOLDER.search(Path(path).as_posix()):
        return f"unpack {RELEASED} (70 GB), which has this folder, or "
    return ""
