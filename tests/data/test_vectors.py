"""Vector files of every kind, written here byte by byte."""

import gzip
import struct

import numpy as np
import pytest

from lightning_xai.data.vectors import coverage, read_word_vectors

WORDS = ["cat", "dog", "na\u00efve"]
TEXT = "the 1 2 3\ncat 0.5 -1 2e-1\nna\u00efve 7 8 9\n"
VECTORS = np.array([[0.5, -1, 0.2], [np.nan] * 3, [7, 8, 9]], dtype=np.float32)


def written(folder, content: str | bytes, name: str = "vectors.txt") -> str:
    content = content.encode() if isinstance(content, str) else content
    (folder / name).write_bytes(content)
    return str(folder / name)


def binary(words: list[str], *, count: int | None = None, end: bytes = b"") -> bytes:
    """Returns a word2vec file with three numbers a word: its place, 1 and 2."""
    entries = [word.encode() + b" " + struct.pack("<3f", i, 1, 2) + end for i, word in enumerate(words)]
    return f"{count or len(words)} 3\n".encode() + b"".join(entries)


@pytest.mark.parametrize("header", ["", "3 3\n"], ids=["GloVe", "fastText"])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"], ids=["plain", "space", "windows"])
def test_text_gives_vectors_to_the_wanted_words_only(tmp_path, header, end):
    path = written(tmp_path, header + TEXT.replace("\n", end))
    np.testing.assert_allclose(read_word_vectors(path, WORDS), VECTORS)


def test_compressed_text_is_read(tmp_path):
    path = written(tmp_path, gzip.compress(TEXT.encode()), "vectors.vec.gz")
    np.testing.assert_allclose(read_word_vectors(path, WORDS), VECTORS)


@pytest.mark.parametrize("end", [b"", b"\n"], ids=["joined", "lines"])
def test_binary_gives_vectors_to_the_wanted_words_only(tmp_path, end):
    path = written(tmp_path, binary(["the", "na\u00efve", "cat"], end=end), "vectors.bin")
    assert read_word_vectors(path, ["cat", "na\u00efve"]).tolist() == [[2, 1, 2], [1, 1, 2]]


@pytest.mark.slow
def test_binary_larger_than_a_block_is_read_to_its_end(tmp_path):
    words = [f"word{i}" for i in range(60_000)]  # 1.3 MB
    path = written(tmp_path, binary(words), "vectors.bin")
    assert read_word_vectors(path, words)[:, 0].tolist() == list(range(60_000))


def test_the_first_vector_of_a_word_counts(tmp_path):
    path = written(tmp_path, "cat 1 2\ncat 3 4\n")
    assert read_word_vectors(path, ["cat"]).tolist() == [[1, 2]]


def test_words_with_spaces_are_not_taken_for_their_first_part(tmp_path):
    path = written(tmp_path, "cat 1 2\n. . . 3 4\n. 5 6\n")
    assert read_word_vectors(path, ["."]).tolist() == [[5, 6]]


def test_coverage_is_the_fraction_of_words_with_a_vector():
    assert coverage(VECTORS) == pytest.approx(2 / 3)


def test_a_missing_file_is_named():
    with pytest.raises(ValueError, match="no file of word vectors at none.txt"):
        read_word_vectors("none.txt", WORDS)


@pytest.mark.parametrize("numbers", ["1", "1 2 3", "1 x", "1 nan"])
def test_a_line_of_another_width_is_named(tmp_path, numbers):
    path = written(tmp_path, f"the 1 2\ncat {numbers}\n")
    with pytest.raises(ValueError, match="line 2: the word 'cat' must be followed by 2 finite numbers"):
        read_word_vectors(path, WORDS)


def test_truncated_text_is_named_with_its_last_line(tmp_path):
    path = written(tmp_path, "5 3\n" + TEXT)
    with pytest.raises(ValueError, match="ends after 3 of 5 vectors, at line 4"):
        read_word_vectors(path, WORDS)


@pytest.mark.parametrize("cut", [1, 12, 15])
def test_truncated_binary_is_named_with_its_last_vector(tmp_path, cut):
    path = written(tmp_path, binary(["the", "cat"])[:-cut], "vectors.bin")
    with pytest.raises(ValueError, match="ends within vector 2 of 2"):
        read_word_vectors(path, WORDS)


def test_text_under_the_name_of_a_binary_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="rename it so that its name does not end in .bin"):
        read_word_vectors(written(tmp_path, TEXT, "vectors.bin"), WORDS)


def test_a_fasttext_model_is_refused_with_the_file_to_give(tmp_path):
    path = written(tmp_path, struct.pack("<ii", 793712314, 12), "cc.en.bin")
    with pytest.raises(ValueError, match="give the .vec file"):
        read_word_vectors(path, WORDS)


def test_a_file_with_none_of_the_words_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"any word of the vocabulary \(1 word\):"):
        read_word_vectors(written(tmp_path, TEXT), ["Katze"])
