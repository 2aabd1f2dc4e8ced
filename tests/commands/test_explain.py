"""explain prints and writes predictions and token scores of texts, with a finished run."""

import contextlib
import io
import json
import re
import shutil

import pytest
from transformers import BertConfig, BertForSequenceClassification

import lightning_xai as lx
from lightning_xai.commands.explain import file_lines
from lightning_xai.commands.main import main
from lightning_xai.data.vocabulary import word_tokenizer
from tests.commands.conftest import BERT, command, refusal

TEXT = "w7 w0 w9 w30"


def explained(run, tmp_path, lines: str, *arguments) -> list[dict]:
    """Writes `lines` into a file, explains it, and returns the records that explain wrote."""
    file = tmp_path / "lines.txt"
    file.write_bytes(lines.encode())
    command("explain", "--ckpt", run, "--file", file, *arguments)
    return [json.loads(line) for line in (tmp_path / "lines.txt.jsonl").read_text().splitlines()]


def test_text_is_printed_with_its_predicted_class_and_highest_tokens(fitted, tmp_path):
    page = tmp_path / "page.html"
    printed = command("explain", "--ckpt", fitted.path, "--text", TEXT, "--method", "AttInGrad", "--html", page)
    assert re.search(r"class[01]  p = 0\.\d+  \(predicted\)", printed)
    assert "AttInGrad: magnitudes without a sign" in printed and TEXT in printed
    assert re.search(r"\d  #{20}  w\d", printed) and re.search(r"without these words: p = 0\.\d{3}\n", printed)
    data = re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert data is not None
    assert "".join(json.loads(data.group(1))["documents"][0]["pieces"]) == TEXT
    assert f"written: {page}" in printed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_tokens_are_colored_on_a_terminal(fitted, tmp_path):
    with contextlib.redirect_stdout(Terminal()) as terminal:
        main(["explain", "--ckpt", str(fitted.path), "--text", TEXT, "--html", str(tmp_path / "page.html")])
    printed = terminal.getvalue()
    assert "\x1b[48;2;" in printed
    assert TEXT in re.sub(r"\x1b\[[0-9;]*m", "", printed)


def test_every_line_of_a_file_gets_a_record_with_its_number(fitted, tmp_path):
    records = explained(fitted.path, tmp_path, "w1 w2\n\nw3\n")
    assert [(record["line"], record["text"]) for record in records] == [(1, "w1 w2"), (2, ""), (3, "w3")]


def test_every_row_of_a_table_gets_a_record_and_needs_no_label(fitted, tmp_path):
    file = tmp_path / "new.csv"
    file.write_text('id,review\n7,"good, word9"\n8,\n')
    options = ["--ckpt", fitted.path, "--file", file]
    command("explain", *options, "--text_column", "review")
    records = [json.loads(line) for line in (tmp_path / "new.csv.explained.jsonl").read_text().splitlines()]
    assert [(record["row"], record["text"]) for record in records] == [(1, "good, word9"), (2, "")]
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "word9"}\n{"id": 1}\n{"text": 0}\n')
    assert "row 3: text is 0, not a text" in refusal("explain", "--ckpt", fitted.path, "--file", rows)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("text\ncafé\n".encode("latin-1"))
    assert "is not UTF-8" in (line := refusal("explain", "--ckpt", fitted.path, "--file", latin)) and "iconv" in line
    assert "has no column 'text', only id, review: name the column by --text_column" in refusal("explain", *options)
    other = refusal("explain", "--ckpt", fitted.path, "--text", "word9", "--text_column", "review")
    assert "--text_column review has no effect" in other


def test_offsets_cut_the_tokens_out_of_the_text(fitted, tmp_path):
    (record,) = explained(fitted.path, tmp_path, TEXT)
    pieces = [record["text"][begin:end] for begin, end in record["offsets"] if end > begin]
    assert pieces == TEXT.split()
    for chosen in record["classes"]:
        assert all(len(scores) == len(record["offsets"]) for scores in chosen["scores"].values())


def test_offsets_count_characters_in_multi_byte_text(fitted, tmp_path):
    text = "\U0001f600 w0 na\u00efve w9"
    (record,) = explained(fitted.path, tmp_path, text)
    pieces = [record["text"][begin:end] for begin, end in record["offsets"] if end > begin]
    assert pieces == text.split()


@pytest.mark.slow
def test_unknown_tokens_are_counted(fitted, tmp_path):
    page = ["--html", tmp_path / "page.html"]
    printed = command("explain", "--ckpt", fitted.path, "--text", "hello world", *page)
    assert "\n2 of 2 tokens are unknown to the network's vocabulary\n" in printed
    assert "are unknown" not in command("explain", "--ckpt", fitted.path, "--text", TEXT, *page)
    records = explained(fitted.path, tmp_path, f"hello world\n{TEXT} hello\n\n{TEXT}\n")
    assert [record["num_unknown_tokens"] for record in records] == [2, 1, 0, 0]


def test_explanation_does_not_depend_on_the_other_lines(fitted, tmp_path):
    alone = explained(fitted.path, tmp_path, TEXT)[0]["classes"]
    among = explained(fitted.path, tmp_path, f"{TEXT}\n" + "w1 w2 w3 w4 w5 w6 w7\n" * 3)[0]["classes"]
    for expected, actual in zip(alone, among, strict=True):
        scores = expected["scores"]["IntegratedGradients"]
        assert scores == pytest.approx(actual["scores"]["IntegratedGradients"], rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("option", [["--method", "AttInGradd"], ["--method=AttInGradd"]])
def test_unknown_method_is_named_with_those_there_are(fitted, option):
    message = refusal("explain", "--ckpt", fitted.path, "--text", TEXT, *option)
    assert "'AttInGradd': did you mean AttInGrad? " in message
    assert "AttInGrad, " in message and "IntegratedGradients" in message


def test_arguments_of_a_method_can_be_given(fitted, tmp_path):
    method = ["--method", "IntegratedGradients", "--method.num_steps", "3"]
    (record,) = explained(fitted.path, tmp_path, TEXT, *method)
    assert list(record["classes"][0]["scores"]) == ["IntegratedGradients"]


@pytest.mark.parametrize(
    ("arguments", "magnitudes"),
    [
        (["--method", "IntegratedGradients"], False),
        (["--method=InputXGradient,DeepLift"], False),
        (["--method=Gradient"], True),
        (["--method", "IntegratedGradients", "--method.pooling", "l2"], True),
        (["--method", "IntegratedGradients", "--method.num_steps", "3"], False),
        (["--method", '{"class_path": "IntegratedGradients", "init_args": {"num_steps": 3}}'], True),
    ],
)
def test_name_alone_gives_scores_with_a_sign(fitted, tmp_path, arguments, magnitudes):
    page = ["--html", tmp_path / "page.html"]
    printed = command("explain", "--ckpt", fitted.path, "--text", TEXT, *page, *arguments)
    assert ("magnitudes without a sign" in printed) == magnitudes


def test_folder_that_is_no_run_is_named(tmp_path):
    assert str(tmp_path) in refusal("explain", "--ckpt", tmp_path, "--text", TEXT)


@pytest.mark.parametrize("place", ["runs/typo", "runs/tm/seed0", "./typo", "typo/a/b/c"])
def test_missing_run_is_not_looked_for_on_the_hub(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    message = refusal("explain", "--ckpt", place, "--text", TEXT)
    assert f"there is no {place}: give the folder of a fitted run" in message


def test_checkpoint_in_the_working_directory_without_its_run_is_refused(fitted, tmp_path, monkeypatch):
    shutil.copy(fitted.path / "checkpoints" / "best.ckpt", tmp_path)
    monkeypatch.chdir(tmp_path)
    message = refusal("explain", "--ckpt", "best.ckpt", "--text", TEXT)
    assert message.startswith("error: best.ckpt has no checkpoint or no config.yaml")


def test_folder_of_an_experiment_is_refused_with_the_name_of_a_run(run_copy):
    experiment = run_copy.parent
    message = refusal("explain", "--ckpt", experiment, "--text", TEXT)
    assert f"{experiment} is an experiment: give one of its runs, such as {experiment}/seed0" in message


def test_checkpoint_is_explained_from_its_own_folder(run_copy, monkeypatch):
    monkeypatch.chdir(run_copy / "checkpoints")
    assert TEXT in command("explain", "--ckpt", "best.ckpt", "--text", TEXT)
    assert (run_copy / "explain.html").is_file()


def test_missing_file_is_named(fitted):
    assert "none.txt" in refusal("explain", "--ckpt", fitted.path, "--file", "none.txt")


@pytest.mark.parametrize("arguments", [[], ["--text", TEXT, "--file", "lines.txt"]], ids=["neither", "both"])
def test_either_a_text_or_a_file_is_needed(fitted, arguments):
    assert "--text, --text_file and --file" in refusal("explain", "--ckpt", fitted.path, *arguments)


def test_last_checkpoint_of_a_run_can_be_chosen(fitted, tmp_path):
    last = fitted.path / "checkpoints" / "last.ckpt"
    (record,) = explained(last, tmp_path, TEXT)
    assert record["text"] == TEXT


def test_only_line_feeds_end_a_line(tmp_path):
    (tmp_path / "lines.txt").write_bytes("a\u2028b\n\nc".encode())
    assert file_lines(str(tmp_path / "lines.txt")) == ["a\u2028b", "", "c"]


def test_a_method_outside_the_package_is_named_by_its_class_path(fitted, tmp_path, monkeypatch):
    (tmp_path / "outside_methods.py").write_text(
        "from lightning_xai.attributions.random import Random\n\n\nclass Mine(Random):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    page = ("--html", tmp_path / "page.html")
    printed = command("explain", "--ckpt", fitted.path, "--text", TEXT, "--method", "outside_methods.Mine", *page)
    assert "Mine" in printed


@pytest.mark.parametrize("option", ["--num_class", "--meth"])
def test_abbreviated_option_is_refused(fitted, option):
    assert option in refusal("explain", "--ckpt", fitted.path, "--text", TEXT, option, "1")


def test_default_scores_have_a_sign(fitted, tmp_path):
    printed = command("explain", "--ckpt", fitted.path, "--text", TEXT, "--html", tmp_path / "page.html")
    assert re.search(r"IntegratedGradients: \+ supports class[01], - opposes it", printed)
    assert re.search(r"[+]\d\S*  #+ ", printed) and re.search(r"-\d\S*  #+ ", printed)


def test_several_methods_stand_side_by_side(fitted, tmp_path):
    (record,) = explained(fitted.path, tmp_path, TEXT, "--method", "AttInGrad,DecompXReverse")
    assert list(record["classes"][0]["scores"]) == ["AttInGrad", "DecompXReverse"]
    assert list(record["classes"][0]["probability_without"]) == ["AttInGrad", "DecompXReverse"]


def test_unknown_method_in_a_list_is_named(fitted):
    assert "'Attn'" in refusal("explain", "--ckpt", fitted.path, "--text", TEXT, "--method", "AttInGrad,Attn")


def test_pipes_hold_records_only(fitted, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TEXT}\nw1\n"))
    printed = command("explain", "--ckpt", fitted.path, "--file", "-")
    assert [json.loads(line)["text"] for line in printed.splitlines()] == [TEXT, "w1"]


def test_escape_codes_in_a_text_do_not_reach_a_pipe(fitted, tmp_path):
    page = ("--html", tmp_path / "page.html")
    assert "\x1b" not in command("explain", "--ckpt", fitted.path, "--text", "w1 \x1b[31mw2", *page)


def test_adapter_without_its_base_is_named(tmp_path):
    assert "has no checkpoint" in refusal("explain", "--ckpt", tmp_path, "--text", "w1")
    (tmp_path / "adapter_config.json").write_text("{}")
    assert "adapter" in refusal("explain", "--ckpt", tmp_path, "--text", "w1").replace(str(tmp_path), "")


def test_output_that_would_be_ignored_is_refused(fitted, tmp_path):
    message = refusal("explain", "--ckpt", fitted.path, "--text", TEXT, "--output", "x.jsonl")
    assert "--output x.jsonl has no effect with --text: leave it out, or use --html" in message
    file = tmp_path / "lines.txt"
    file.write_text(TEXT)
    message = refusal("explain", "--ckpt", fitted.path, "--text_file", file, "--output", "x.jsonl")
    assert "--output x.jsonl has no effect with --text_file: " in message
    message = refusal("explain", "--ckpt", fitted.path, "--file", file, "--html", "x.html")
    assert "--html x.html has no effect with --file: leave it out, or use --output" in message


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.html"])
def test_output_that_is_no_file_of_json_lines_is_refused(fitted, tmp_path, name):
    (tmp_path / "lines.txt").write_text(TEXT)
    message = refusal("explain", "--ckpt", fitted.path, "--file", tmp_path / "lines.txt", "--output", tmp_path / name)
    assert f"{name}: give a name that ends in .jsonl" in message and not (tmp_path / name).exists()


@pytest.mark.slow
def test_a_page_does_not_replace_a_file_of_another_kind(fitted, tmp_path):
    table = tmp_path / "train.csv"
    table.write_text("text,label\n")
    message = refusal("explain", "--ckpt", fitted.path, "--text", TEXT, "--html", table)
    assert "train.csv: give a name that ends in .html" in message and table.read_text() == "text,label\n"


@pytest.mark.slow
def test_a_text_that_is_cut_is_named(fitted, tmp_path):
    page = ["--html", tmp_path / "page.html"]
    line = "\nthe network reads only the first 89 of 299 characters\n"  # 30 tokens beside two special ones
    assert line in command("explain", "--ckpt", fitted.path, "--text", " ".join(["w7"] * 100), *page)
    assert "the network reads only" in (tmp_path / "page.html").read_text()
    assert "reads only" not in command("explain", "--ckpt", fitted.path, "--text", TEXT, *page)
    records = explained(fitted.path, tmp_path, f"{TEXT}\n{' '.join(['w7'] * 100)}\n")
    assert [record["truncated"] for record in records] == [False, True]


def test_a_text_with_more_tokens_than_the_network_has_positions_is_cut(tmp_path):
    network = BertForSequenceClassification(BertConfig(**BERT | {"max_position_embeddings": 16}))
    network.save_pretrained(tmp_path / "model")
    tokenizer = word_tokenizer([f"w{number}" for number in range(9)], split="whitespace", lowercase=False)
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(tmp_path / "model")
    page, text = ["--html", tmp_path / "page.html"], " ".join(["w7"] * 100)
    printed = command("explain", "--ckpt", tmp_path / "model", "--text", text, "--method", "Random", *page)
    assert "\nthe network reads only the first 41 of 299 characters\n" in printed  # 14 tokens of 2 characters
    assert len(lx.load_run(str(tmp_path / "model")).predict([text])) == 1
