"""Any Hugging Face data set, by a mapping of its splits and columns."""

from __future__ import annotations

from pathlib import Path

from datasets import DatasetDict, load_dataset, load_from_disk
from huggingface_hub import snapshot_download

from lightning_xai.data.sources.files import ColumnSource


class Hub(ColumnSource):
    """Rows of a data set on the Hugging Face hub, of a local copy of one, or of a folder that `save_to_disk` wrote.

    Args:
        path: the hub's id of the data set, or a folder.
        config_name: which of its configurations; None where it has but one.
        splits: our split -> theirs; those beside "train", "validation" and "test" are further test splits.
        revision: commit, tag or branch; None for the newest. "refs/convert/parquet" is the hub's own copy of many data
            sets, also of those made by a script, which `datasets` does not run any more.
        data_dir: folder of the data set whose files are read; None for all. In the hub's own copy each configuration is
            a folder and none has a name, so there this takes the place of `config_name`.

    Raises:
        ValueError: on loading, if the data set or a split is missing.
    """

    def __init__(
        self,
        path: str,
        config_name: str | None = None,
        splits: dict[str, str] | None = None,
        revision: str | None = None,
        data_dir: str | None = None,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.name = Path(path).name
        self.path = path
        self.config_name = config_name
        self.splits = splits
        self.revision = revision
        self.data_dir = data_dir

    def load_table(self) -> DatasetDict:
        if (Path(self.path) / "dataset_dict.json").is_file():
            found = load_from_disk(self.path)
        else:
            found = self._load_dataset()
        splits = self.splits or {name: name for name in found}
        for theirs in splits.values():
            if theirs not in found:
                raise ValueError(f"{self.path} has no split {theirs!r}; it has {', '.join(found)}")
        return DatasetDict({ours: found[theirs] for ours, theirs in splits.items()})

    def _load_dataset(self) -> DatasetDict:
        try:
            return load_dataset(self._folder(), self.config_name, data_dir=self.data_dir, revision=self.revision)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{self.path} gives no data set, as a folder or from the Hugging Face hub ({str(error).strip()}): "
                "correct the path, fetch it once where the hub can be reached, or give a local copy"
            ) from error

    def _folder(self) -> str:
        if self.data_dir is None or Path(self.path).is_dir():
            return self.path
        # without the hub, `datasets` does not find again what it has read of a part of a data set
        # https://github.com/huggingface/datasets/issues/7551
        only = f"{self.data_dir}/*"
        return snapshot_download(self.path, repo_type="dataset", revision=self.revision, allow_patterns=only)
