"""VADER: its formats on short texts, and its sizes on the data if pip can fetch it."""

import pytest

from lightning_xai.data.sources.laws import check_source
from lightning_xai.data.sources.vader import (
    LEXICON_FILE,
    RATING_FILES,
    Vader,
    drop_repeated,
    fetch_vader,
    lexicon_spans,
    parse_lexicon,
    parse_ratings,
    split_rows,
)

LEXICON = {"great": 3.1, "horrible": -2.5, ":)": 2.0, "good": 1.9}


@pytest.fixture
def folder(tmp_path):
    """A cache with a few rows in the format of the download, so that nothing is fetched."""
    data = tmp_path / "vader-3.3.2"
    data.mkdir()
    (data / LEXICON_FILE).write_text("great\t3.1\t0.7\t[3, 4]\r\nhorrible\t-2.5\t0.8\t[-2, -3]\r\n")
    for domain, file in RATING_FILES.items():
        texts = [f"{i}\t{(i % 9 - 4) * 0.9}\tA great, horrible {domain} number {i}.\r\n" for i in range(90)]
        (data / file).write_text("".join(texts), newline="")
    return str(tmp_path)


def test_ratings_are_read_from_tab_separated_lines():
    assert parse_ratings(["1_6\t-0.95\tno picture: \ta\r\n", "\n"]) == [("1_6", -0.95, "no picture: \ta")]


def test_lexicon_is_read_from_tab_separated_lines():
    assert parse_lexicon(["$:\t-1.5\t0.80623\t[-1, -1]\r\n"]) == {"$:": -1.5}


def test_texts_equal_up_to_case_and_space_are_dropped():
    rows = [("1", 2.0, "So  good"), ("2", 1.0, "so good"), ("3", 1.0, "other")]
    assert [row[0] for row in drop_repeated(rows)] == ["1", "3"]


@pytest.mark.parametrize("sign, words", [(1, ["Great", ":)"]), (-1, ["horrible"])])
def test_lexicon_words_of_the_sign_are_marked_without_punctuation(sign, words):
    text = '"Great," but horrible... :)'
    assert [text[begin:end] for begin, end in lexicon_spans(text, LEXICON, sign)] == words


def test_split_is_a_seeded_partition():
    parts = split_rows(100, 0.1, 0.2, seed=3)
    assert [len(parts[split]) for split in ("train", "validation", "test")] == [70, 10, 20]
    assert sorted(i for part in parts.values() for i in part) == list(range(100))
    assert (parts["test"] == split_rows(100, 0.1, 0.2, seed=3)["test"]).all()
    assert (parts["test"] != split_rows(100, 0.1, 0.2, seed=4)["test"]).any()


def test_label_is_the_sign_of_a_rating_beyond_the_threshold(folder):
    rows = Vader(cache_dir=folder, other_domains=[]).load()["train"]
    ratings = {str(i): (i % 9 - 4) * 0.9 for i in range(90)}
    assert all(abs(ratings[row["id"]]) > 1 and row["labels"] == (ratings[row["id"]] > 0) for row in rows)


def test_rationale_speaks_for_the_label(folder):
    for row in Vader(cache_dir=folder).load()["train"]:
        ((begin, end),) = row["rationales"][0]["spans"]
        assert row["rationales"][0]["label"] == row["labels"]
        assert row["text"][begin:end] == ("great" if row["labels"] else "horrible")


def test_rationales_can_be_left_out(folder):
    assert "rationales" not in Vader(cache_dir=folder, weak_rationales=False).load()["train"].column_names


def test_other_domains_are_test_splits(folder):
    assert list(Vader(domain="nyt", cache_dir=folder, other_domains=["tweets"]).load()) == [
        "train", "validation", "test", "tweets",
    ]  # fmt: skip


def test_filler_is_what_the_threshold_leaves_and_crosses_no_split(folder):
    source = Vader(cache_dir=folder, other_domains=[])
    rows, filler = source.load(), source.load_filler()
    texts = [text for split in filler for text in [*filler[split], *rows[split]["text"]]]
    assert sum(map(len, filler.values())) == 30
    assert len(texts) == len(set(texts)) == 90


def test_domain_among_the_others_is_refused():
    with pytest.raises(ValueError, match="other_domains has 'movie'"):
        Vader(other_domains=["movie"])


def test_fractions_that_leave_no_training_data_are_refused():
    with pytest.raises(ValueError, match="leave some training data"):
        Vader(validation_fraction=0.5, test_fraction=0.5)


def test_missing_data_ask_for_prepare(tmp_path):
    with pytest.raises(ValueError, match="call prepare"):
        Vader(cache_dir=str(tmp_path)).load()


def test_files_that_are_there_are_not_fetched_again(folder):
    source = Vader(cache_dir=folder)
    before = (source.folder / LEXICON_FILE).stat().st_mtime_ns
    fetch_vader(source.folder)
    assert (source.folder / LEXICON_FILE).stat().st_mtime_ns == before


@pytest.mark.slow
def test_texts_that_cannot_be_fetched_are_refused_with_a_remedy(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ValueError, match="cannot fetch vaderSentiment.* by hand"):
        fetch_vader(tmp_path / "vader")
    assert capsys.readouterr().out.startswith("downloading vaderSentiment")


@pytest.mark.slow
def test_downloaded_movie_texts_have_the_known_size_and_no_leak():
    source = Vader()
    try:
        source.prepare()
    except ValueError as error:
        pytest.skip(str(error))
    rows, filler = source.load(), source.load_filler()
    # 10605 lines, of which 2 repeat others
    assert sum(len(rows[s]) + len(filler[s]) for s in ("train", "validation", "test")) == 10603
    keys = [" ".join(text.casefold().split()) for split in rows.values() for text in split["text"]]
    main = sum(len(rows[s]) for s in ("train", "validation", "test"))
    assert len(set(keys[:main])) == main


def test_laws(folder):
    check_source(Vader(cache_dir=folder))
