"""A table of a test's results on disk, with the hash of the tested checkpoint and the settings of the test."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from lightning_xai.runs.evaluation_settings import changed_evaluation, hash_of_evaluation
from lightning_xai.runs.files.whole_files import damaged, read_json, write_csv, write_json, write_whole
from lightning_xai.runs.format import with_format
from lightning_xai.runs.new_options import without_new_options
from lightning_xai.runs.settings import hash_of_test_data

RESULTS = "results"
KEYS = ["split", "preset", "method", "metric"]  # columns that identify a row among the results of a run


def read_table(file: Path, columns: list[str] | None = None) -> pd.DataFrame:
    """Reads a table of results, or only some of its columns.

    Raises:
        ValueError: the file is damaged.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "results.parquet")
        >>> pd.DataFrame({"value": [0.5]}).to_parquet(file)
        >>> read_table(file)["value"].tolist()
        [0.5]
    """
    try:
        return pd.read_parquet(file, columns=columns)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the file could not be read, but may be intact
            raise
        reason = str(error).removeprefix(f"Could not open Parquet input source '{file}': ")
        raise damaged(file, reason, _remedy(file)) from error


def _remedy(file: Path) -> str:
    """Returns the remedy for a damaged table. It names the command that writes the table, not the one that reads it."""
    config = file.with_name("config.yaml")
    if file.stem != RESULTS or not config.is_file():
        return "remove it and repeat the test that wrote it"
    return f"remove it and test the run again: python run.py test --config {shlex.quote(str(config))}"


def run_results(folder: Path) -> pd.DataFrame:
    """Returns all results of a run's tested checkpoint, including results of later tests on other data.

    All results of a split and a preset come from one test: the test in results.parquet or, if this file lacks them, the
    newest other test that has them. A test that evaluated other examples than the test in results.parquet is
    used only for splits that results.parquet lacks.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> row = {"checkpoint": "0a", "preset": "", "method": "", "metric": "accuracy"}
        >>> pd.DataFrame([row | {"split": "test", "value": 0.5}]).to_parquet(folder / "results.parquet")
        >>> pd.DataFrame([row | {"split": "imdb", "value": 0.25}]).to_parquet(folder / "results_12ab.parquet")
        >>> run_results(folder)["value"].tolist()
        [0.5, 0.25]
    """
    tests = run_tables(folder)
    own_splits, known, parts = set(tests[0].rows["split"]), set(), []
    for number, test in enumerate(tests):
        rows = test.rows if test.same_examples is not False else test.rows[~test.rows["split"].isin(own_splits)]
        kinds = list(zip(rows["split"], rows["preset"], strict=True))
        parts.append(rows[[number == 0 or kind not in known for kind in kinds]])
        known |= set(kinds)
    return pd.concat(parts, ignore_index=True).drop_duplicates(KEYS, ignore_index=True)


class RunTable(NamedTuple):
    """The table of one test of a run."""

    rows: pd.DataFrame
    # whether the test used the same examples as the test in results.parquet; None if a table has no settings, because
    # an older version of the package made it
    same_examples: bool | None


def run_tables(folder: Path) -> list[RunTable]:
    """Returns results.parquet, then the tables of all other tests of the same checkpoint, newest first."""
    own = ResultsTable(folder)
    others = sorted(folder.glob(f"{RESULTS}_*.parquet"), key=lambda file: file.stat().st_mtime, reverse=True)
    own_settings = own.settings
    tests = [RunTable(read_table(own.parquet), same_examples=True)]
    checkpoint = tests[0].rows["checkpoint"].iloc[0]
    for file in others:
        rows = read_table(file)
        if len(rows) and rows["checkpoint"].iloc[0] == checkpoint:
            settings = ResultsTable(folder, file.stem).settings
            same = None if own_settings is None or settings is None else _have_same_examples(own_settings, settings)
            tests.append(RunTable(rows, same_examples=same))
    return tests


def _have_same_examples(own: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Returns whether two tests with these settings use the same examples of each split that both test."""
    limit, splits = "trainer.limit_test_batches", "data.init_args.extra_test_splits"
    own, settings = ({k: v for k, v in given.items() if not k.startswith(splits)} for given in (own, settings))
    same_data = hash_of_test_data(without_new_options(settings, own)) == hash_of_test_data(own)
    return same_data and settings.get(limit) == own.get(limit)


@dataclass(frozen=True)
class ResultsTable:
    """One table of results in a run's folder, in the files `<stem>.csv`, `<stem>.parquet` and `<stem>.json`.

    The JSON file holds the hash of the tested checkpoint, all settings of the command, and facts that the objective
    adds. The run's current table, which reports prefer (see `run_results`), has the stem "results".

    Example:
        >>> import tempfile
        >>> table = ResultsTable(Path(tempfile.mkdtemp()))
        >>> table.write(pd.DataFrame({"checkpoint": ["0a1b"], "value": [0.5]}), {"trainer.limit_test_batches": 2})
        >>> table.checkpoint, table.settings
        ('0a1b', {'trainer.limit_test_batches': 2})
        >>> row = pd.DataFrame({"checkpoint": ["0a1b"], "value": [0.75]})
        >>> earlier = table.write(row, {"trainer.limit_test_batches": 3})  # a table with another stem
        >>> len(list(table.folder.glob("results_*.csv")))  # the earlier table
        1
    """

    folder: Path
    stem: str = RESULTS

    @property
    def suffix(self) -> str:
        """The part of `stem` after "results", such as "_0a1b"; "" for the run's current table."""
        return self.stem.removeprefix(RESULTS)

    @property
    def csv(self) -> Path:
        return self.folder / f"{self.stem}.csv"

    @property
    def parquet(self) -> Path:
        return self.folder / f"{self.stem}.parquet"

    @property
    def settings_file(self) -> Path:
        return self.folder / f"{self.stem}.json"

    @property
    def heatmaps_dir(self) -> Path:
        """Folder of the pages with heatmaps that belong to the table."""
        return self.folder / f"heatmaps{self.suffix}"

    @property
    def exists(self) -> bool:
        return self.parquet.exists()

    @property
    def checkpoint(self) -> str:
        """Hash of the tested checkpoint."""
        return str(read_table(self.parquet, columns=["checkpoint"])["checkpoint"].iloc[0])

    @property
    def settings(self) -> dict[str, Any] | None:
        """All settings of the command that made the table; None if an older version of the package made the table."""
        if not self.settings_file.exists():
            return None
        settings = read_json(self.settings_file).get("settings")
        if not isinstance(settings, dict):
            raise damaged(self.settings_file, "it has no settings")
        return settings

    def write(
        self, table: pd.DataFrame, settings: Mapping[str, Any], facts: Mapping[str, Any] = MappingProxyType({})
    ) -> ResultsTable | None:
        """Writes the CSV, JSON and parquet files, each atomically. `facts` are more entries of the JSON file.

        The parquet file comes last. If it exists, the table is complete.

        If an earlier table has other evaluation settings, it is first renamed to `<stem>_<hash of its settings>`.

        Returns:
            the renamed table; None if no table was renamed.
        """
        stem = self._stem_of_earlier(settings)
        kept = self.move(stem) if stem else None
        write_csv(table, self.csv)
        self.write_settings(settings, str(table["checkpoint"].iloc[0]), facts)
        write_whole(self.parquet, partial(table.to_parquet, index=False))
        return kept

    def keep_pages(self, settings: Mapping[str, Any]) -> None:
        """Renames the folder of heatmaps, if `write` is about to rename the table to which the heatmaps belong."""
        if stem := self._stem_of_earlier(settings):
            self.move_pages(stem)

    def _stem_of_earlier(self, settings: Mapping[str, Any]) -> str:
        """Returns the stem (file name without extension) to which `write` will rename the table on the disk.

        Returns "" if no table is on the disk, or if its evaluation settings are unknown or equal those in `settings`.
        """
        earlier = self.settings
        if not self.exists or earlier is None or not changed_evaluation(earlier, settings):
            return ""
        return f"{self.stem}_{hash_of_evaluation(earlier)}"

    def write_settings(
        self, settings: Mapping[str, Any], checkpoint: str, facts: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        content = {"checkpoint": checkpoint, "settings": dict(settings), **facts}
        write_json(self.settings_file, with_format(content))

    def move(self, stem: str) -> ResultsTable:
        """Renames the files, with `stem` as their new stem. After a kill, a second call renames the remaining files."""
        target = ResultsTable(self.folder, stem)
        if self.settings_file.exists():  # if not, an earlier call has moved everything, or there are no settings
            # copied now, and removed last, so a kill cannot lose the settings
            write_json(target.settings_file, read_json(self.settings_file))
        for old, new in [(self.csv, target.csv), (self.parquet, target.parquet)]:
            if old.exists():
                old.replace(new)
        # a kill during an earlier move has lost the CSV file, so it is made again from the parquet file
        if target.exists and not target.csv.exists():
            write_csv(read_table(target.parquet), target.csv)
        self.settings_file.unlink(missing_ok=True)
        return target

    def kept(self, settings: Mapping[str, Any]) -> ResultsTable:
        """Returns the table to which `write` renames earlier results that have these evaluation settings."""
        return ResultsTable(self.folder, f"{self.stem}_{hash_of_evaluation(settings)}")

    def recall(self, settings: Mapping[str, Any]) -> None:
        """Makes the table with these evaluation settings the current table again, after `write` has renamed it.

        The table that was current is renamed instead. If the current table already has these settings, only its
        heatmaps are moved back, because a killed test with other settings may have moved them away.
        """
        kept = self.kept(settings)
        recalled = kept.exists
        if stem := self._stem_of_earlier(settings):
            self.move_pages(stem)
            self.move(stem)
        # if the current table has no CSV file, a killed call may have moved only some files; `move` moves the rest
        if recalled or not self.csv.exists():
            kept.move(self.stem)
        for page in sorted(kept.heatmaps_dir.glob("*.html")):
            target = self.heatmaps_dir / page.name
            if recalled or not target.exists() or not self._is_older(target):
                self.heatmaps_dir.mkdir(exist_ok=True)
                page.replace(target)

    def _is_older(self, page: Path) -> bool:
        """Returns whether a page is older than the table; True if there is no table.

        A test draws its pages just before it writes its table.
        """
        return not self.exists or page.stat().st_mtime <= self.parquet.stat().st_mtime

    def move_pages(self, stem: str) -> None:
        """Moves the table's pages with heatmaps to the folder for `stem`, the table's new file name without extension.

        If that folder has a page of the same name, the moved page replaces it. There is one exception: if the page to
        be moved is newer than the table, it is removed instead, because a killed test with other evaluation settings
        may have drawn it.
        """
        target = ResultsTable(self.folder, stem).heatmaps_dir
        for page in sorted(self.heatmaps_dir.glob("*.html")):
            if (target / page.name).exists() and not self._is_older(page):
                page.unlink()
            else:
                target.mkdir(exist_ok=True)
                page.replace(target / page.name)
