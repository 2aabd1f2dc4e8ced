"""No command overwrites what it reads, and an output is whole or not there."""

import os
import platform
from pathlib import Path

import pytest

from lightning_xai.commands.outputs import refuse_inputs, write_output, written_lines
from tests.commands.conftest import command, refusal


@pytest.mark.parametrize("link", ["the name", "another path", "symbolic link", "hard link"])
def test_input_is_no_output_under_any_name(tmp_path, link):
    file = tmp_path / "a.txt"
    file.write_text("w1 w2")
    output = {"the name": file, "another path": tmp_path / ".." / tmp_path.name / "a.txt"}.get(link, tmp_path / "b.txt")
    if link == "symbolic link":
        output.symlink_to(file)
    if link == "hard link":
        output.hardlink_to(file)
    with pytest.raises(ValueError, match="is also an input .file.: give another name"):
        refuse_inputs("output", output, {"file": file})


def test_folder_is_no_output(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        refuse_inputs("html", tmp_path, {})


@pytest.mark.parametrize("name", ["manifest.json", "checkpoints/last.ckpt", "vocab.txt"])
def test_file_of_the_model_is_no_output(tmp_path, name):
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    refuse_inputs("output", file, {}, tmp_path)  # a new file
    file.touch()
    with pytest.raises(ValueError, match=f"{name} is a file of the model in .*: give another name"):
        refuse_inputs("output", file, {}, tmp_path)


def test_earlier_explanation_in_the_folder_of_the_model_is_replaced(tmp_path):
    page = tmp_path / "explain.html"
    page.touch()
    refuse_inputs("html", page, {}, tmp_path)


@pytest.mark.parametrize("before", [None, "old"])
def test_output_of_an_interrupted_command_is_as_before(tmp_path, before):
    file = tmp_path / "a.jsonl"
    if before is not None:
        file.write_text(before)

    def write(stream):
        stream.write("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_output(file, write)
    assert [path.name for path in tmp_path.iterdir()] == (["a.jsonl"] if before else [])
    assert before is None or file.read_text() == before


def test_link_to_an_output_stays(tmp_path):
    link = tmp_path / "latest.jsonl"
    link.symlink_to(tmp_path / "a.jsonl")
    write_output(link, lambda stream: stream.write("x"))
    assert link.is_symlink() and (tmp_path / "a.jsonl").read_text() == "x"


def test_pipe_is_written_directly(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, lambda stream: stream.write("x"))
    assert os.read(reader, 9) == b"x"
    os.close(reader)


def test_explain_keeps_the_texts_it_reads(fitted, tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("w1 w2\nw3\n")
    for output in (file, fitted.path / "config.yaml", fitted.path / "checkpoints" / "best.ckpt"):
        before = Path(output).read_bytes()
        message = refusal("explain", "--ckpt", fitted.path, "--file", file, "--output", output)
        assert f"output {output} is also an input" in message
        assert output.read_bytes() == before
    message = refusal("explain", "--ckpt", fitted.path, "--file", file, "--output", fitted.path / "manifest.json")
    assert "manifest.json is a file of the model" in message
    command("explain", "--ckpt", fitted.path, "--file", file)
    assert len((tmp_path / "a.txt.jsonl").read_text().splitlines()) == 2


def test_remains_of_killed_commands_that_wrote_the_same_file_are_removed(tmp_path):
    host, parent = platform.node(), os.getppid()
    remains = [f"a[1].jsonl.{host}.4194305.partial"]
    others = [f"a[1].jsonl.{host}.{parent}.partial", "a[1].jsonl.node2.17.partial", f"b.jsonl.{host}.4194305.partial"]
    for name in [*remains, *others]:
        (tmp_path / name).touch()
    write_output(tmp_path / "a[1].jsonl", lambda stream: stream.write("x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a[1].jsonl", *others])


def test_pages_of_all_splits_are_named_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(len(str(tmp_path)) + 60))
    file, pages = tmp_path / "results.csv", [tmp_path / "heatmaps" / f"{name}.html" for name in ("test", "nyt")]
    file.touch()
    csv, folder = f"written: {file}", f"written: {tmp_path / 'heatmaps'}"
    assert written_lines(file, pages) == [csv, f"{folder}: test.html, nyt.html"]
    assert written_lines(None, pages[:1]) == [f"{folder}/test.html"]
    assert written_lines(tmp_path / "missing.csv", []) == []
    monkeypatch.setenv("COLUMNS", "20")
    assert written_lines(file, pages) == [csv, f"{folder} (2 pages)"]
