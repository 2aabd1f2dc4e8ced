"""`run.py racu`: folders and options on the command line, and where the report lies."""

import pandas as pd
import pytest

from lightning_xai.commands.racu import default_output
from tests.commands.conftest import command, refusal
from tests.report.conftest import chain

pytestmark = pytest.mark.slow


def test_table_of_several_experiments_is_printed_and_written(tmp_path):
    sst = chain(tmp_path / "roar_sst", gradient=[0.9, 0.65, 0.5])
    babi = chain(tmp_path / "roar_babi", metric="accuracy", gradient=[0.9, 0.5, 0.5])
    printed = command("racu", sst, babi, "--metric", "macro_f1", "accuracy")
    assert "roar_sst" in printed and "roar_babi" in printed
    table = pd.read_csv(tmp_path / "report" / "racu" / "racu.csv").query("quantity == 'racu'")
    assert table.set_index("experiment")["mean"].to_dict() == pytest.approx({"roar_sst": 0.3, "roar_babi": 0.6})


def test_macro_f1_is_the_default(tmp_path):
    assert "30.0" in command("racu", chain(tmp_path / "roar", gradient=[0.9, 0.65, 0.5]))


def test_files_go_to_the_named_folder(tmp_path):
    experiment = chain(tmp_path / "roar", gradient=[0.9, 0.65, 0.5])
    command("racu", experiment, "--output", tmp_path / "here")
    assert (tmp_path / "here" / "racu.csv").is_file() and not (experiment / "report").exists()


def test_folder_without_a_chain_is_named(tmp_path):
    assert "has no seed*/roar.csv" in refusal("racu", tmp_path)


def test_misspelt_option_is_named():
    message = refusal("racu", "runs/roar", "--metrics", "accuracy")
    assert "--metrics accuracy" in message and "run.py racu --help" in message


def test_report_of_one_experiment_lies_in_its_folder(tmp_path):
    assert default_output([tmp_path / "roar"]) == tmp_path / "roar" / "report"


def test_report_of_several_experiments_lies_in_their_common_folder(tmp_path):
    assert default_output([tmp_path / "sst" / "roar", tmp_path / "babi" / "roar"]) == tmp_path / "report"
