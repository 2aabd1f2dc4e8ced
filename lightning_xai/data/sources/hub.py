"""Reads data sets of the Hugging Face hub, whose splits and columns may have any names."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from datasets import ClassLabel, Dataset, DatasetBuilder, DatasetDict, load_dataset_builder, load_from_disk
from huggingface_hub import snapshot_download

from lightning_xai.data.sources.columns import ColumnSource
from lightning_xai.functional.classes.class_names import class_positions, listed


def is_saved_dataset(path: str | Path) -> bool:
    """Returns whether `path` is a folder that `DatasetDict.save_to_disk` wrote.

    Example:
        >>> is_saved_dataset("stanfordnlp/imdb")
        False
    """
    return (Path(path) / "dataset_dict.json").is_file()


def check_label_names(rows: Dataset, column: str, class_names: list[str], path: str) -> None:
    """Checks that the class names of a label column do not contradict the expected names and their order.

    Names are accepted if none of them is an expected name.

    Raises:
        ValueError: the column has the expected names in another order. Or only some names are in both lists, and the
            lists differ in length or in the positions of these names.

    Example:
        >>> from datasets import Features
        >>> rows = Dataset.from_dict({"label": [0]}, features=Features({"label": ClassLabel(names=["pos", "neg"])}))
        >>> check_label_names(rows, "label", ["neg", "pos"], "folder")
        Traceback (most recent call last):
        ValueError: folder has the classes in the order ['pos', 'neg'], not ['neg', 'pos']: read it with the source Hub
    """
    feature = rows.features[column]
    if not isinstance(feature, ClassLabel):
        return
    positions = class_positions(feature.names, class_names, path)
    if positions is not None and positions != list(range(len(positions))):
        numbered = f"{path} has the classes in the order {listed(feature.names)}, not {listed(class_names)}"
        raise ValueError(f"{numbered}: read it with the source Hub")


def unguessed_cell(cell: str) -> str | None:
    """Returns a CSV cell unchanged, or None if it is empty. With this converter, pandas does not guess types.

    Example:
        >>> unguessed_cell("007"), unguessed_cell("NA"), unguessed_cell("")
        ('007', 'NA', None)
    """
    return cell or None


class Hub(ColumnSource):
    """Rows of a data set that is on the Hugging Face hub, in a local copy, or in a folder that `save_to_disk` wrote.

    Args:
        path: a hub id, such as "stanfordnlp/imdb", or a folder.
        config_name: name of the data set's configuration on the hub; None if it has only one.
        splits: name of a split in this package -> its name in the data set; by default, all splits of the data set,
            under the same names. Splits that are not called "train", "validation" or "test" are treated as additional
            test splits.
        revision: commit, tag or branch; None for the newest version. The hub keeps Parquet copies of data sets in the
            branch "refs/convert/parquet". Use this branch if a data set is defined by a script, because `datasets` no
            longer runs scripts.
        data_dir: the only folder of the data set whose files are read; None for all folders. The Parquet copies have
            one folder per configuration, so set `data_dir` for them, not `config_name`.
        kwargs: arguments of ColumnSource.

    Raises:
        ValueError: `load` raises the error if the data set or a split is missing.

    Example:
        >>> import tempfile
        >>> from datasets import Dataset
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     DatasetDict({"dev": Dataset.from_dict({"text": ["a"], "label": [0]})}).save_to_disk(folder)
        ...     Hub(folder, splits={"validation": "dev"}).load()["validation"]["text"][:]
        ['a']
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
        table = load_from_disk(self.path) if is_saved_dataset(self.path) else self._load_dataset()
        splits = self.splits or {name: name for name in table}
        for theirs in splits.values():
            if theirs not in table:
                raise ValueError(f"{self.path} has no split {theirs!r}; it has {', '.join(table)}")
        return DatasetDict({ours: table[theirs] for ours, theirs in splits.items()})

    def _load_dataset(self) -> DatasetDict:
        with self._hub_errors():
            return self._build().as_dataset()

    def remote_revision(self) -> str:
        if Path(self.path).exists() or self.revision is not None and re.fullmatch("[0-9a-f]{40}", self.revision):
            return ""
        with self._hub_errors():
            # the last three folders of `cache_dir` are the configuration, the version and a hash. `datasets` knows them
            # offline, too
            return "/".join(Path(self._new_builder()().cache_dir).parts[-3:])

    @contextmanager
    def _hub_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{self.path}: neither a folder nor a data set that can be loaded from the hub ({str(error).strip()}): "
                "correct the path, load the data set once on a machine that can reach the hub, or give a local copy"
            ) from error

    def _new_builder(self) -> Callable[..., DatasetBuilder]:
        return partial(
            load_dataset_builder, self._folder(), self.config_name, data_dir=self.data_dir, revision=self.revision
        )

    def _build(self) -> DatasetBuilder:
        build = self._new_builder()
        builder = build()
        if hasattr(builder.config, "keep_default_na"):  # an option of CSV and TSV data sets
            quoting = csv.QUOTE_NONE if builder.config.sep == "\t" else csv.QUOTE_MINIMAL
            used = [column for column in self.columns.values() if column is not None]
            builder = build(converters=dict.fromkeys(used, unguessed_cell), keep_default_na=False, quoting=quoting)
        builder.download_and_prepare()
        return builder

    def _folder(self) -> str:
        if self.data_dir is None or Path(self.path).is_dir():
            return self.path
        # offline, `load_dataset` with `data_dir` cannot find its earlier download, but `snapshot_download` can:
        # https://github.com/huggingface/datasets/issues/7551
        only = f"{self.data_dir}/*"
        return snapshot_download(self.path, repo_type="dataset", revision=self.revision, allow_patterns=only)
