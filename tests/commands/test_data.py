"""The command `data`: encodes, lists, verifies and removes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_xai.commands.data import data_command
from lightning_xai.commands.main import main
from lightning_xai.commands.parser.parts import find_part

pytestmark = pytest.mark.slow

PLANTED = ["--data", "planted.yaml", "--data.init_args.source.init_args.num_train", "20"]


@pytest.fixture
def cache(tmp_path):
    return ["--cache_dir", str(tmp_path)]


def printed(capsys, *argv) -> list[str]:
    data_command(list(argv))
    return capsys.readouterr().out.splitlines()


def test_data_are_encoded_described_listed_and_removed(cache, capsys, tmp_path):
    lines = printed(capsys, *PLANTED, *cache)
    assert lines[0].startswith("  train: 20 examples of ") and "100% of evidence kept" in lines[0]
    counts = [int(count) for count in re.findall(r"class\d (\d+)", lines[1])]
    assert len(counts) == 2 and sum(counts) == 20
    assert re.fullmatch(rf"    [\d,]+ tokens in {tmp_path}/corpora/\w+, \d\.\d MB", lines[2])
    listed = printed(capsys, "--list", *cache)
    assert len(listed) == 4 and any("Planted train (data/planted.yaml): 20 rows" in line for line in listed)
    name = listed[0].split()[0]
    assert printed(capsys, "--remove", name, *cache) == [f"removed: {tmp_path}/corpora/{name}"]
    assert len(printed(capsys, "--list", *cache)) == 3
    printed(capsys, "--remove", "all", *cache)
    assert printed(capsys, "--list", *cache)[-1].startswith("0 corpora of 0 MB")


def test_the_list_names_the_last_use_and_begins_with_the_oldest(cache, capsys, tmp_path):
    printed(capsys, *PLANTED, *cache)
    folders = {path.name: path for path in tmp_path.glob("corpora/*") if path.is_dir()}
    for days, path in enumerate(folders.values()):
        os.utime(path, (1_700_000_000 - days * 86400,) * 2)
    listed = printed(capsys, "--list", *cache)[:-1]
    assert [line.split()[0] for line in listed] == list(folders)[::-1]
    assert all(re.search(r"MB, last used 2023-11-\d\d \d\d:\d\d$", line) for line in listed)
    printed(capsys, *PLANTED, *cache)
    assert all(path.stat().st_mtime > 1_700_000_001 for path in folders.values())


def test_the_list_names_the_configuration_for_which_a_corpus_was_encoded_first(cache, capsys, tmp_path, monkeypatch):
    printed(capsys, *PLANTED, *cache)
    monkeypatch.chdir(tmp_path)
    own = Path(find_part("planted.yaml", "data")).read_text().replace("num_test: 64", "num_test: 4")
    Path("own.yaml").write_text(own)
    folders = set(tmp_path.glob("corpora/*"))
    printed(capsys, "--data", "own.yaml", *PLANTED[2:], *cache)
    assert len(set(tmp_path.glob("corpora/*")) - folders) == 3  # of another source, as num_test says
    listed = printed(capsys, "--list", *cache)[:-1]
    assert sum("Planted train (data/planted.yaml): 20 rows" in line for line in listed) == 1
    assert sum("Planted train (own.yaml): 20 rows" in line for line in listed) == 1
    printed(capsys, "--data", "planted.yaml", *PLANTED[2:], *cache)
    assert printed(capsys, "--list", *cache)[-1].startswith("6 corpora")


def test_a_whole_configuration_prints_nothing_of_the_fit_that_is_left_out(cache, capfd, tmp_path):
    # in a process, since Lightning's logger keeps the first standard error that it meets
    options = ["--config", "roar.yaml", *PLANTED[2:], "--trainer.logger=false", *cache]
    done = subprocess.run([sys.executable, "run.py", "data", *options], capture_output=True, text=True, check=True)
    assert done.stderr == "" and "fast_dev_run" not in done.stdout
    assert done.stdout.startswith("  train: 20 examples of ")
    listed = "\n".join(printed(capfd, "--list", *cache))
    assert "Planted train (data/planted_chain.yaml): 20 rows" in listed


def test_a_second_command_encodes_nothing_and_verifying_makes_damage_good(cache, capsys, tmp_path):
    first = printed(capsys, *PLANTED, *cache)
    assert printed(capsys, *PLANTED, *cache) == first
    shards = sorted(tmp_path.glob("corpora/*/tokens-00000.arrow"))
    content = bytearray(shards[0].read_bytes())
    content[len(content) // 2] ^= 1
    shards[0].write_bytes(content)
    *verified, compared = printed(capsys, *PLANTED, *cache, "--verify")
    assert verified == first and compared.startswith("the contents of all files were compared")
    assert bytes(content) != shards[0].read_bytes()


def test_a_command_without_data_is_one_line():
    with pytest.raises(SystemExit, match="error: no data are given: add --data vader.yaml or the like, or --config"):
        main(["data"])


def test_switches_also_take_true_and_false(cache, capsys):
    assert printed(capsys, "--list", "true", *cache)[0].startswith("0 corpora")
    with pytest.raises(SystemExit, match=r"error: argument --verify: invalid choice: 'yes' \(choose from"):
        main(["data", *PLANTED, "--verify", "yes"])


def test_a_missing_tokenizer_is_one_line(cache):
    with pytest.raises(SystemExit, match="error: .*TokenizerEncoder has no path"):
        main(["data", "--data", "vader.yaml", *cache])
