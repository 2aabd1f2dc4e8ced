"""`run.py data`: encodes the data of a configuration, or lists or removes encoded data."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from lightning_xai.callbacks.run_summary import data_lines
from lightning_xai.commands.cli import XAICLI
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.parser.config_files import with_config_paths
from lightning_xai.commands.parser.config_syntax import check_files
from lightning_xai.commands.parser.data_links import give_config_path
from lightning_xai.commands.parser.part_files import with_merged_files
from lightning_xai.commands.parser.parts import PARSER_MODE, find_shipped_parts, with_part_paths
from lightning_xai.commands.parser.run_arguments import RUNS_DIR
from lightning_xai.commands.parser.run_parser import RunParser
from lightning_xai.data.corpora.cache import CorpusCache, last_use
from lightning_xai.data.corpora.privacy import require_cache_apart
from lightning_xai.data.module import TextDataModule
from lightning_xai.functional.model_files.cache_folder import cache_folder
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.runs.progress import quiet

EVERYTHING = "all"
MOST_CLASSES = 50  # the number of examples of a class is printed for at most this many classes


def data_command(argv: Sequence[str]) -> None:
    """Parses the command line of `data` and runs it.

    Raises:
        ValueError: no configuration is given, or a name to remove is unknown.

    Example:
        >>> import tempfile
        >>> data_command(["--list", "--cache_dir", tempfile.mkdtemp()])  # doctest: +ELLIPSIS
        0 corpora of 0 MB in ...
    """
    parser = argparse.ArgumentParser(
        prog="run.py data", allow_abbrev=False, exit_on_error=False, description=__doc__,
        epilog="All options of fit are allowed too, such as --config tm.yaml or --data vader.yaml.",
    )  # fmt: skip
    switch: dict[str, Any] = {"nargs": "?", "const": "true", "default": "false", "choices": ("true", "false")}
    parser.add_argument("--list", **switch, help="list the encoded splits")
    parser.add_argument("--remove", nargs="+", metavar="NAME", help="remove these splits (names from --list), or all")
    parser.add_argument(
        "--verify", **switch, help="compare contents even of files whose size and times have not changed"
    )
    parser.add_argument("--cache_dir", help="cache folder, with the encoded splits in its subfolder corpora")
    options, others = parser.parse_known_args(list(argv))
    cache = CorpusCache(cache_folder(options.cache_dir) / "corpora")
    if options.remove:
        remove(cache, options.remove)
    elif options.list == "true":
        print("\n".join(listing(cache)))
    else:
        if options.cache_dir is not None:
            others.append(f"--data.init_args.cache_dir={options.cache_dir}")
        verify = options.verify == "true"
        encode(others, verify=verify)
        if verify:
            print("the contents of all files were compared; a split whose contents had changed was encoded again")


def encode(argv: Sequence[str], *, verify: bool) -> None:
    """Encodes all splits of a configuration's data, and prints a summary of each.

    Args:
        argv: options of the command `fit`: either --config with the configuration of a run, or only --data.
        verify: whether to read all files again and compare their contents with the stored hashes. Otherwise, a file
            whose size and times have not changed is not read.

    Raises:
        ValueError: neither --config nor --data is given, or the data cannot be encoded.

    Example:
        >>> encode([], verify=False)
        Traceback (most recent call last):
        ValueError: no data are given: add --data vader.yaml or the like, or --config with the configuration of a run
    """
    names = [argument.partition("=")[0] for argument in argv]
    if not {"--data", "--config", "-c"}.intersection(names):
        raise ValueError(
            "no data are given: add --data vader.yaml or the like, or --config with the configuration of a run"
        )
    import_all()
    find_shipped_parts()
    command = with_part_paths(argv)
    check_files(with_config_paths(command))
    if {"--config", "-c"}.intersection(names):
        arguments = with_merged_files(["fit", *command, "--trainer.fast_dev_run=true"])
        with quiet("Running in `fast_dev_run` mode"):  # an irrelevant message, because DataCLI trains nothing
            DataCLI(arguments, verify=verify)
    else:
        print("\n".join(encoded(data_of_options(command), verify=verify)))


class DataCLI(XAICLI):
    """Parses the command line of a fit, but does not train: encodes the data, and builds (and downloads) the network.

    Args:
        args: the command line of a fit, with fast_dev_run.
        verify: as in `encode`.

    Example:
        >>> issubclass(DataCLI, XAICLI)
        True
    """

    def __init__(self, args: list[str], *, verify: bool) -> None:
        self.verify = verify
        super().__init__(args)

    def fit(self, ckpt_path: str | None = None, **kwargs: Any) -> None:
        self.is_done = True
        print("\n".join(encoded(self.datamodule, verify=self.verify)))


def data_of_options(argv: list[str]) -> TextDataModule:
    """Returns the data module that the option `--data` and its overrides in `argv` describe.

    Raises:
        ValueError: the text is private, and its cache is inside the default folder of the runs.

    Example:
        >>> find_shipped_parts()
        >>> data_of_options(with_part_paths(["--data", "planted.yaml"])).num_classes
        2
    """
    parser = RunParser(parser_mode=PARSER_MODE, exit_on_error=False, allow_abbrev=False)
    parser.add_subclass_arguments(TextDataModule, "data", required=True)
    config = parser.parse_args(argv)
    data: TextDataModule = parser.instantiate(config).data
    require_cache_apart(data.source, data.encoded_source.cache.folder.parent, Path(RUNS_DIR))
    give_config_path(data, config.data, [])
    return data


def encoded(data: TextDataModule, *, verify: bool) -> list[str]:
    """Encodes all splits of a data module, and returns lines that describe each split.

    Example:
        >>> import tempfile
        >>> from lightning_xai.data.sources.planted import Planted
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> words = VocabularyEncoder(words=95)
        >>> data = TextDataModule(Planted(num_train=8), words, cache_dir=tempfile.mkdtemp())
        >>> encoded(data, verify=False)[1]
        '    class0 2, class1 6'
    """
    data.encoded_source.verify = verify
    lines = [f"  {line}" for line in data.encoded_source.table.report]
    for name in data.split_names:
        split = data.unerased_split(name)
        rows = data.encoded_source.table.num_rows[name]
        lines += data_lines({name: split.summary() | {"padding_fraction": 0.0, "rows": rows}})
        counts = list(split.class_counts().items())
        shown = [f"{data.class_names[label]} {count:,}" for label, count in counts[:MOST_CLASSES]]
        lines.append(f"    {', '.join(shown)}")
        if len(counts) > MOST_CLASSES:
            lines[-1] += f" and {quantity(len(counts) - MOST_CLASSES, 'other class')}"
        place = f"{split.corpus.folder}, {size_of(split.corpus.manifest)}"
        lines.append(f"    {quantity(int(split.lengths.sum()), 'token')} in {place}")
    data.encoded_source.release()
    return lines


def listing(cache: CorpusCache) -> list[str]:
    """Returns a line for each encoded split, least recently used first, and a last line with their total size.

    The line of a split shows the name of its folder, its source and configuration, how many rows and tokens it has, its
    size, and when it was last used.

    Example:
        >>> from pathlib import Path
        >>> listing(CorpusCache(Path("no/such/folder")))
        ['0 corpora of 0 MB in no/such/folder']
    """
    manifests = cache.manifests()
    used = {folder: last_use(folder) for folder in manifests}
    lines = [
        f"{folder.name}  {origin_of(facts)}: {quantity(facts['rows'], 'row')}, {quantity(facts['tokens'], 'token')}, "
        f"{size_of(facts)}, last used {datetime.fromtimestamp(used[folder]):%Y-%m-%d %H:%M}"
        for folder, facts in sorted(manifests.items(), key=lambda item: used[item[0]])
    ]
    total = sum(file["bytes"] for facts in manifests.values() for file in facts["files"].values())
    return [*lines, f"{quantity(len(manifests), 'corpus', 'corpora')} of {total / 1e6:,.0f} MB in {cache.folder}"]


def origin_of(manifest: Mapping[str, Any]) -> str:
    """Returns the source and the name of an encoded split, and the configuration for which it was encoded, as text.

    Example:
        >>> origin_of({"source": {"class_path": "data.Vader"}, "split": "train", "configuration": "data/vader.yaml"})
        'Vader train (data/vader.yaml)'
    """
    source = manifest.get("source", {}).get("class_path", "").rpartition(".")[2]
    configuration = manifest.get("configuration")
    return f"{source} {manifest.get('split', '')}" + (f" ({configuration})" if configuration else "")


def remove(cache: CorpusCache, names: Sequence[str]) -> None:
    """Removes encoded splits. Processes that have opened them can go on reading.

    Args:
        cache: the cache of encoded splits.
        names: names that `listing` shows; "all" removes every split.

    Raises:
        ValueError: a name is unknown.

    Example:
        >>> from pathlib import Path
        >>> remove(CorpusCache(Path("no/such/folder")), ["0a1b"])
        Traceback (most recent call last):
        ValueError: no/such/folder has no corpus '0a1b': run.py data --list shows all names
    """
    known = {path.name: path for path in cache.folder.glob("*") if path.is_dir()}
    for name in names:
        if name != EVERYTHING and name not in known:
            raise ValueError(f"{cache.folder} has no corpus {name!r}: run.py data --list shows all names")
    for name in known if EVERYTHING in names else names:
        shutil.rmtree(known[name])
        print(f"removed: {known[name]}")


def size_of(manifest: dict[str, Any]) -> str:
    """Returns how much disk space an encoded split takes, as text such as "2.5 MB".

    Example:
        >>> size_of({"files": {"rows.arrow": {"bytes": 2_500_000}}})
        '2.5 MB'
    """
    return f"{sum(file['bytes'] for file in manifest['files'].values()) / 1e6:,.1f} MB"
