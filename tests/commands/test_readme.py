"""The Python code of README.md runs: its ten lines on a fitted run, and its own classes of five kinds."""

import copy
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pandas as pd
import pytest

from lightning_xai.commands.overview import COMMANDS
from lightning_xai.commands.parser.config_files import find_config
from tests.commands.conftest import METHODS, ROOT, command, save, tiny_config

README = (ROOT / "README.md").read_text()


def code(first_line: str) -> str:
    """Returns the indented lines of README.md from `first_line` to the next text or the next file."""
    lines = README.split("\n")
    start = next(number for number, line in enumerate(lines) if line.strip() == first_line)
    indent = len(lines[start]) - len(lines[start].lstrip())
    block: list[str] = []
    for line in lines[start:]:
        begins_file = block and line.strip().startswith("# ") and line.strip().endswith(".py")
        if line.strip() and (len(line) - len(line.lstrip()) < indent or begins_file):
            break
        block.append(line)
    return textwrap.dedent("\n".join(block))


def test_the_lines_from_python_run(fitted, tmp_path, monkeypatch):
    shutil.copytree(fitted.path, tmp_path / "runs" / "tm" / "seed0")
    monkeypatch.chdir(tmp_path)
    lines = code("import lightning_xai as lx")
    assert len([line for line in lines.split("\n") if line]) <= 12
    names: dict = {}
    known = lines.replace("The battery died.", "w1 w22 w333 w4").replace("A sharp picture.", "w5 w6")
    exec(known.replace("[2, 7]", "[0, 2]").replace("movie/positive", "class0"), names)
    assert len(names["explanations"]) == 2 and (tmp_path / "explanations.html").is_file()
    assert set(names["explanations"].to_frame()["method"]) == {"AttInGrad", "DecompXReverse"}


@pytest.fixture
def own_parts(tmp_path, monkeypatch):
    """The module my_parts of README.md, importable as if it were installed."""
    (tmp_path / "my_parts.py").write_text(code("# my_parts.py"))
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_parts", None)


@pytest.mark.slow
def test_own_classes_of_six_kinds_keep_the_laws(own_parts):
    checks = code("# check_my_parts.py")
    assert checks.count("\ncheck_") == 6
    exec(checks, {})


@pytest.mark.slow
def test_own_classes_of_five_kinds_are_used_from_a_configuration(own_parts, tmp_path):
    config = copy.deepcopy(tiny_config(max_epochs=1))
    config["model"]["class_path"] = "my_parts.SquaredError"
    config["model"]["init_args"]["network"] = {"class_path": "my_parts.SharperLSTM"}
    config["data"]["init_args"]["source"] = {"class_path": "my_parts.Reviews"}
    config["data"]["init_args"]["encoder"]["init_args"]["words"] = ["a", "good", "bad", "film"]
    methods = {**METHODS, "init_args": {"methods": {"norm": {"class_path": "my_parts.EmbeddingNorm"}}}}
    preset = {
        "class_path": "lightning_xai.callbacks.evaluation.AttributionEvaluation",
        "init_args": {"preset": "mine", "metrics": [{"class_path": "my_parts.MeanScore"}]},
    }
    config["trainer"]["callbacks"] = [methods, preset]
    command("fit", "--config", save(config, tmp_path / "own.yaml"), "--runs_dir", tmp_path / "runs")
    run = tmp_path / "runs" / "own" / "seed0"
    table = pd.read_csv(run / "results.csv")
    assert table.loc[table["preset"] == "mine", ["method", "metric"]].to_numpy().tolist() == [["norm", "mean_score"]]
    page = ("--html", Path(tmp_path / "page.html"))
    assert "EmbeddingNorm: magnitudes" in command(
        "explain", "--ckpt", run, "--text", "a good film", "--method", "my_parts.EmbeddingNorm", *page
    )


@pytest.mark.slow
def test_an_own_term_is_trained_from_a_configuration(own_parts, tmp_path):
    config = copy.deepcopy(tiny_config(max_epochs=1, callbacks=[]))
    config["model"]["init_args"]["terms"] = {"size": {"class_path": "my_parts.LogitSize", "init_args": {"weight": 0.1}}}
    printed = command("fit", "--config", save(config, tmp_path / "term.yaml"), "--runs_dir", tmp_path / "runs")
    assert "terms: own loss 1, size 0.1 (LogitSize)" in printed


def test_commands_and_configurations_exist():
    commands = re.findall(r"python run\.py ([a-z]+)", README)
    assert len(commands) > 15 and set(commands) <= set(COMMANDS)
    named = [name for name in re.findall(r"--config[ \n]([\w/]+\.yaml)", README) if not name.startswith("runs/")]
    assert named and all(Path(find_config(name)).is_file() for name in named)
    assert all((ROOT / "configs" / name).is_file() for name in re.findall(r"`configs/([\w/]+\.yaml)`", README))


def test_links_lead_to_headings():
    headings = re.findall(r"^#+ (.+)$", (ROOT / "configs" / "README.md").read_text(), flags=re.MULTILINE)
    anchors = re.findall(r"\(configs/README\.md#([\w-]+)\)", README)
    assert anchors and set(anchors) <= {heading.lower().replace(" ", "-") for heading in headings}


def test_the_pictures_exist_and_are_small():
    pictures = [ROOT / path for path in re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)]
    assert pictures and all(picture.stat().st_size < 200_000 for picture in pictures)
