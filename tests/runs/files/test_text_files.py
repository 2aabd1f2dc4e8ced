"""Files in another encoding are refused with a probable encoding and the first wrong line."""

import re

import pytest

from lightning_xai.runs.files.text_files import check_encoding, codec_of, read_text, text_lines


@pytest.mark.parametrize(
    ("contents", "named"),
    [
        ("good\ncaf\u00e9".encode("latin-1"), "byte 8).*encoding: latin-1`; .*is line 2"),
        ("\u201cgood\u201d\n".encode("cp1252"), "byte 0).*encoding: cp1252`; .*is line 1"),
        ("good".encode("utf-16"), "byte 0).*encoding: utf-16`; .*is line 1"),
        ("good".encode("utf-16-le"), "byte 1 is 0).*encoding: utf-16-le`$"),
        ("good".encode("utf-16-be"), "byte 0 is 0).*encoding: utf-16-be`$"),
    ],
)
def test_the_message_names_a_probable_encoding(contents, named, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(contents)
    for read in (read_text, lambda path: list(text_lines(path))):
        with pytest.raises(ValueError, match=r"rows\.csv is not UTF-8 \(" + named.replace(")", r"\)")):
            read(file)
    # the suggestion is right: with it, the file can be read
    with pytest.raises(ValueError) as caught:
        read_text(file)
    suggested = re.search(r"encoding: ([\w-]+)", str(caught.value))
    assert suggested is not None and "\ufffd" not in read_text(file, suggested[1])


def test_without_an_option_the_message_has_a_command(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(b"caf\xe9")
    with pytest.raises(ValueError, match=r"save it as UTF-8 \(for example, with iconv -f latin-1 -t utf-8\)"):
        read_text(file, has_option=False)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(b"\xef\xbb\xbfgood\r\nbad")
    assert read_text(file) == "good\nbad" and list(text_lines(file)) == ["good\n", "bad"]
    assert codec_of("utf_8") == codec_of("UTF8") == "utf-8-sig"


@pytest.mark.parametrize("encoding", ["utf8mb4", "rot13", "hex", ""])
def test_an_encoding_that_python_lacks_is_refused(encoding):
    with pytest.raises(ValueError, match="choose an encoding known to Python, such as utf-8"):
        check_encoding(encoding)
