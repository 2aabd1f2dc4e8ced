"""Any Hugging Face data set, by a mapping of its splits and columns."""

from __future__ import annotations

from pathlib import Path

from datasets import DatasetDict, load_dataset, load_from_disk

from lightning_xai.data.sources.files import ColumnSource


class Hub(ColumnSource):
    """Rows of a data set on the Hugging Face hub, of a local copy of one, or of a folder that `save_to_disk` wrote.

    Args:
        path: the hub's id of the data set, or a folder.
        config_name: which of its configurations; None where it has but one.
        splits: our split -> theirs; those beside "train", "validation" and "test" are further test splits.
        revision: commit, tag or branch; None for the newest.

    Raises:
        ValueError: on loading, if a split is missing.
    """

    def __init__(
        self,
        path: str,
        config_name: str | None = None,
        splits: dict[str, str] | None = None,
        revision: str | None = None,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.name = Path(path).name
        self.path = path
        self.config_name = config_name
        self.splits = splits
        self.revision = revision

    def load_table(self) -> DatasetDict:
        if (Path(self.path) / "dataset_dict.json").is_file():
            found = load_from_disk(self.path)
        else:
            found = load_dataset(self.path, self.config_name, revision=self.revision)
        splits = self.splits or {name: name for name in found}
        for theirs in splits.values():
            if theirs not in found:
                raise ValueError(f"{self.path} has no split {theirs!r}; it has {', '.join(found)}")
        return DatasetDict({ours: found[theirs] for ours, theirs in splits.items()})
