"""Short texts from four domains, with human ratings of their sentiment and with rationales from a lexicon."""

from __future__ import annotations

import hashlib
import string
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Literal

from datasets import DatasetDict

from lightning_xai.data.sources.base import (
    TextSource,
    rationales_of,
    require_fractions,
    rows_to_splits,
    split_rows,
)
from lightning_xai.functional.model_files.cache_folder import cache_folder
from lightning_xai.functional.text.spans import word_offsets
from lightning_xai.runs.progress import say

Domain = Literal["movie", "amazon", "nyt", "tweets"]
RATING_FILES: dict[str, str] = {
    "movie": "movieReviewSnippets_GroundTruth.txt",
    "amazon": "amazonReviewSnippets_GroundTruth.txt",
    "nyt": "nytEditorialSnippets_GroundTruth.txt",
    "tweets": "tweets_GroundTruth.txt",
}
LEXICON_FILE = "vader_lexicon.txt"
PACKAGE = "vaderSentiment==3.3.2"  # its source distribution is downloaded, since the wheel lacks the rated texts
SDIST_SHA256 = "5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9"


def parse_ratings(lines: Iterable[str]) -> list[tuple[str, float, str]]:
    """Returns (id, mean rating in [-4, 4], text) for every line "id<TAB>rating<TAB>text".

    Example:
        >>> parse_ratings(["1\\t-0.9\\ta bad film\\n"])
        [('1', -0.9, 'a bad film')]
    """
    fields = [line.rstrip("\r\n").split("\t", 2) for line in lines if line.strip()]
    return [(name, float(rating), text.strip()) for name, rating, text in fields]


def parse_lexicon(lines: Iterable[str]) -> dict[str, float]:
    """Returns word or emoticon -> mean valence in [-4, 4]. Words are in lower case.

    Example:
        >>> parse_lexicon(["great\\t3.1\\t0.7\\t[3, 4]\\n"])
        {'great': 3.1}
    """
    fields = [line.rstrip("\r\n").split("\t") for line in lines if line.strip()]
    return {word: float(valence) for word, valence, *_ in fields}


def drop_repeated(rows: Iterable[tuple[str, float, str]]) -> list[tuple[str, float, str]]:
    """Returns the rows whose text differs from the text of every earlier row in more than case and white space.

    Example:
        >>> drop_repeated([("1", 2.0, "So  good"), ("2", 1.0, "so good")])
        [('1', 2.0, 'So  good')]
    """
    first: dict[str, tuple[str, float, str]] = {}
    for row in rows:
        first.setdefault(" ".join(row[2].casefold().split()), row)
    return list(first.values())


def lexicon_spans(text: str, lexicon: dict[str, float], sign: int) -> list[list[int]]:
    """Returns the character spans, without surrounding punctuation, of the words whose valence has the given sign.

    Negation is ignored: "not good" counts as positive. So the spans are weak rationales.

    Example:
        >>> lexicon_spans("A great, bad film", {"great": 3.1, "bad": -2.5}, sign=1)
        [[2, 7]]
    """
    spans = []
    for begin, end in word_offsets(text).tolist():
        word = text[begin:end]
        if word.lower() not in lexicon:  # entries of the lexicon, such as emoticons, keep their punctuation
            begin += len(word) - len(word.lstrip(string.punctuation))
            word = word.strip(string.punctuation)
        if lexicon.get(word.lower(), 0.0) * sign > 0:
            spans.append([begin, begin + len(word)])
    return spans


def _open_member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    """Opens the file with the given name, which may be in any folder of the archive."""
    file = archive.extractfile(next(m for m in archive.getmembers() if m.name.endswith("/" + name)))
    assert file is not None, f"{name} is a folder or a link"
    return file


def fetch_vader(folder: Path) -> None:
    """Downloads the rated texts and the lexicon into `folder` with pip, unless all files exist.

    Several processes may download at once. Each of them writes into its own folder, and the first to finish renames
    this folder to `folder`.

    Raises:
        ValueError: pip cannot fetch the package, or its checksum is wrong.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in [LEXICON_FILE, *RATING_FILES.values()]:
        ...         Path(folder, name).touch()
        ...     fetch_vader(Path(folder))  # all files are there
    """
    names = [LEXICON_FILE, *RATING_FILES.values()]
    if all((folder / name).is_file() for name in names):
        return
    say(f"downloading {PACKAGE} with pip into {folder}; later runs will use these files")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".vader-") as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        # with build isolation, pip would download setuptools just to read the package's name
        command += ["--no-binary", ":all:", "--no-build-isolation", "--dest", scratch, PACKAGE]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"cannot fetch {PACKAGE} ({reason}); put {', '.join(names)} into {folder} by hand")
        sdist = next(Path(scratch).glob("*.tar.gz"))
        digest = hashlib.sha256(sdist.read_bytes()).hexdigest()
        if digest != SDIST_SHA256:
            raise ValueError(f"{sdist.name} has sha256 {digest}, not {SDIST_SHA256}; check the package index of pip")
        ready = Path(scratch) / "ready"
        ready.mkdir()
        with tarfile.open(sdist) as outer:
            (ready / LEXICON_FILE).write_bytes(_open_member(outer, LEXICON_FILE).read())
            with tarfile.open(fileobj=_open_member(outer, "hutto_ICWSM_2014.tar.gz")) as inner:
                for name in RATING_FILES.values():
                    (ready / name).write_bytes(_open_member(inner, name).read())
        try:
            ready.rename(folder)
        except OSError:
            # if all files exist, another process has downloaded them meanwhile
            if not all((folder / name).is_file() for name in names):
                raise


class Vader(TextSource):
    """Short texts (snippets) of one domain, labeled negative or positive by their mean human rating.

    Repeated snippets are dropped before the snippets are divided into splits. The rationales are weak: they are the
    words whose valence in the VADER lexicon agrees with the label. `load` leaves out snippets without a label.
    `load_filler` returns only these; the source Bundle mixes them with labeled snippets to make long documents. Most of
    the movie snippets are also sentences of the Stanford Sentiment Treebank, so never train on one of the two data sets
    and test on the other.

    Args:
        domain: "movie" or "amazon" reviews, "nyt" (New York Times editorials), or "tweets". Its snippets are divided
            into train, validation and test.
        threshold: a snippet has a label if its mean rating in [-4, 4] is above this number or below minus this number.
        other_domains: domains whose labeled snippets become additional test splits, named by domain; None for all other
            domains. Snippets with the text of a snippet of `domain` are left out.
        seed: seed of the random division into splits.
        validation_fraction, test_fraction: fractions of the domain's snippets.
        cache_dir: folder in which the data is kept; None for $LIGHTNING_XAI_CACHE or, if unset, ~/.cache/lightning_xai.
        weak_rationales: whether rows get the weak rationales.

    Raises:
        ValueError: the fractions leave no training data, or `domain` is among `other_domains`. `load` raises the error
            if the data has not been downloaded.

    Example:
        >>> with tempfile.TemporaryDirectory() as cache:
        ...     source = Vader(cache_dir=cache, other_domains=[])
        ...     source.folder.mkdir()
        ...     _ = (source.folder / LEXICON_FILE).write_text("bad\\t-2.5")
        ...     _ = (source.folder / RATING_FILES["movie"]).write_text("1\\t-3.0\\ta bad film")
        ...     source.load()["train"][0]
        {'text': 'a bad film', 'labels': 0, 'rationales': [{'label': 0, 'spans': [[2, 5]]}], 'id': '1'}

    Reference: Hutto, Gilbert (2014), "VADER: A Parsimonious Rule-based Model for Sentiment Analysis of Social Media
        Text", ICWSM.
    """

    class_names = ["negative", "positive"]
    rationales_are_weak = True

    def __init__(
        self,
        domain: Domain = "movie",
        threshold: float = 1.0,
        other_domains: list[Domain] | None = None,
        seed: int = 0,
        validation_fraction: float = 0.1,
        test_fraction: float = 0.2,
        cache_dir: str | None = None,
        weak_rationales: bool = True,
    ) -> None:
        require_fractions(validation_fraction=validation_fraction, test_fraction=test_fraction)
        others = [name for name in RATING_FILES if name != domain] if other_domains is None else other_domains
        if domain in others:
            raise ValueError(f"other_domains has {domain!r}, the domain that is trained on; remove it")
        self.name = domain
        self.threshold = threshold
        self.other_domains = others
        self.seed = seed
        self.validation_fraction = validation_fraction
        self.test_fraction = test_fraction
        self.folder = cache_folder(cache_dir) / "vader-3.3.2"
        self.weak_rationales = weak_rationales

    def files(self) -> list[Path]:
        return [self.folder / name for name in (LEXICON_FILE, *RATING_FILES.values())]

    def prepare(self) -> None:
        fetch_vader(self.folder)

    def _ratings(self, domain: str) -> list[tuple[str, float, str]]:
        path = self.folder / RATING_FILES[domain]
        if not path.is_file():
            raise ValueError(f"{path} is missing; call prepare() first, with access to the internet")
        with path.open(encoding="utf-8", newline="\n") as lines:
            return drop_repeated(parse_ratings(lines))

    def _split_ratings(self) -> dict[str, list[tuple[str, float, str]]]:
        rows = self._ratings(self.name)
        parts = split_rows(len(rows), self.validation_fraction, self.test_fraction, self.seed)
        return {split: [rows[i] for i in part] for split, part in parts.items()}

    def load(self) -> DatasetDict:
        splits = self._split_ratings()
        trained_on = {text for rows in splits.values() for _, _, text in rows}
        for domain in self.other_domains:
            splits[domain] = [row for row in self._ratings(domain) if row[2] not in trained_on]
        with (self.folder / LEXICON_FILE).open(encoding="utf-8", newline="\n") as lines:
            lexicon = parse_lexicon(lines)
        return rows_to_splits(
            {
                split: [self._row(row, lexicon) for row in rows if abs(row[1]) > self.threshold]
                for split, rows in splits.items()
            }
        )

    def _row(self, row: tuple[str, float, str], lexicon: dict[str, float]) -> dict[str, Any]:
        name, rating, text = row
        label = int(rating > 0)
        columns: dict[str, Any] = {"text": text, "labels": label, "id": name}
        if self.weak_rationales:
            columns["rationales"] = rationales_of(label, lexicon_spans(text, lexicon, 1 if label else -1))
        return columns

    def load_filler(self) -> dict[str, list[str]]:
        return {
            split: [text for _, rating, text in rows if abs(rating) <= self.threshold]
            for split, rows in self._split_ratings().items()
        }
