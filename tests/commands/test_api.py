"""The suite from Python: a finished run predicts, explains and measures texts of lists and pandas tables."""

import html
import json
from typing import Any

import pandas as pd
import pytest
import torch

import lightning_xai as lx
from lightning_xai import api
from lightning_xai.attributions.att_in_grad import AttInGrad
from lightning_xai.attributions.random import Random
from lightning_xai.commands.trained.measuring import evaluation_of
from lightning_xai.data.sources.planted import Planted
from lightning_xai.types import Attribution, Batch, TextInputs
from tests.commands.conftest import command, numbers

TEXTS = ["w7 w0 w9 w30", "w1 w2"]


@pytest.fixture(scope="module")
def run(fitted):
    return lx.load_run(fitted.path)


@pytest.fixture(scope="module")
def tables(run) -> dict[str, pd.DataFrame]:
    """The validation and test examples of the fitted run, as a user's tables."""
    sizes: dict[str, Any] = {"num_train": 48, "num_validation": 16, "num_test": 7}
    splits = Planted(words_per_document=(4, 12), **sizes).load()
    tables = {name: rows.to_pandas() for name, rows in splits.items()}
    for table in tables.values():
        table["label"] = [run.class_names[label] for label in table.pop("labels")]
        table["rationales"] = [parts[0]["spans"] if len(parts) else [] for parts in table["rationales"]]
    return tables


def test_the_package_lists_the_names_of_the_api():
    assert sorted(lx.__all__) == sorted(api.__all__) and set(lx.__all__) <= set(dir(lx))
    assert all(getattr(lx, name) is getattr(api, name) for name in lx.__all__)
    with pytest.raises(AttributeError, match="no attribute 'lode_run'"):
        lx.lode_run  # noqa: B018


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", "checkpoints/best.ckpt"])
def test_a_run_is_loaded_from_its_folder_or_its_checkpoint(fitted, place):
    run = lx.load_run(fitted.path / place)
    assert run.class_names == ["class0", "class1"] and "HFClassifier with 2 classes" in repr(run)


@pytest.mark.slow
def test_predictions_are_those_of_explain(run, fitted, tmp_path):
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))
    command("explain", "--ckpt", fitted.path, "--file", tmp_path / "lines.txt")
    records = [json.loads(line) for line in (tmp_path / "lines.txt.jsonl").read_text().splitlines()]
    table = run.predict(pd.Series(TEXTS, index=["a", "b"]))
    assert table.columns.tolist() == ["predicted", "p(class0)", "p(class1)"] and table.index.tolist() == ["a", "b"]
    for (_, row), record in zip(table.iterrows(), records, strict=True):
        (explained,) = record["classes"]
        assert row["predicted"] == explained["name"]
        assert row[f"p({explained['name']})"] == pytest.approx(explained["probability"], abs=1e-6)
    scores = [score for record in records for score in record["classes"][0]["scores"]["IntegratedGradients"]]
    assert run.explain(TEXTS).to_frame()["score"].tolist() == pytest.approx(scores, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (None, ["IntegratedGradients"]),
        ("Random", ["Random"]),
        ("AttInGrad, Random", ["AttInGrad", "Random"]),
        (AttInGrad(), ["AttInGrad"]),
        ([Random(), Random(seed=1)], ["Random", "Random_2"]),
        (["lightning_xai.attributions.random.Random", AttInGrad()], ["Random", "AttInGrad"]),
    ],
    ids=str,
)  # fmt: skip
def test_methods_are_given_by_name_or_as_objects(run, method, names):
    kernel = run.network.attention_implementation
    (document,) = run.explain("w7 w0", method=method)
    assert list(document.classes[0].scores) == names
    assert run.network.attention_implementation == kernel


def test_a_frame_has_a_row_for_each_token_and_method(run):
    explanations = run.explain(pd.Series(TEXTS, index=["a", "b"]), method=[Random(), AttInGrad()])
    table = explanations.to_frame()
    assert table["text"].value_counts().to_dict() == {"a": 12, "b": 8}  # [CLS], words, [SEP]; two methods
    for row in table.itertuples():
        text = dict(zip(["a", "b"], TEXTS, strict=True))[row.text]
        assert text[row.begin : row.end] == row.token
    words = table[(table["text"] == "a") & (table["method"] == "Random") & (table["token"] != "")]
    assert words["token"].tolist() == TEXTS[0].split()
    assert explanations[1:].to_frame()["text"].unique().tolist() == ["b"]


def test_a_notebook_shows_the_page_in_a_frame_and_no_text_becomes_markup(run):
    shown = run.explain(["w1 <script>alert('x')</script> \"w2\""])._repr_html_()
    assert shown.startswith("<iframe") and shown.count("<") == 2 and shown.count("<script") == 0
    page = html.unescape(shown.split('srcdoc="')[1].split('" sandbox=')[0])
    assert page.startswith("<!doctype html>") and "alert" in page


@pytest.mark.parametrize("name", ["page.html", "records.jsonl", "table.csv"])
def test_explanations_are_saved_by_the_ending_of_the_name(run, tmp_path, name):
    explanations = run.explain(TEXTS)
    assert explanations.save(tmp_path / name) == tmp_path / name
    content = (tmp_path / name).read_text()
    assert "w30" in content
    if name.endswith("jsonl"):
        assert [json.loads(line)["text"] for line in content.splitlines()] == TEXTS
    if name.endswith("csv"):
        assert len(pd.read_csv(tmp_path / name)) == len(explanations.to_frame())


@pytest.mark.slow
def test_measuring_the_examples_of_a_run_gives_its_results_table(run, fitted, tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    methods = [Random(), AttInGrad()]
    table = run.measure(tables["test"], methods, validation=tables["validation"])
    assert list(tmp_path.iterdir()) == []
    expected = numbers(fitted.path / "results.csv")
    assert set(table.columns) == set(pd.read_csv(fitted.path / "results.csv").columns)
    assert set(table["checkpoint"]) == set(expected["checkpoint"])
    keys = ["split", "preset", "method", "metric"]
    names = {"random": "Random", "att_in_grad": "AttInGrad"}
    theirs = expected.replace({"method": names}).set_index(keys)
    compared = 0
    for key, row in table[table["split"] == "test"].set_index(keys).iterrows():
        assert row["value"] == pytest.approx(float(theirs.loc[key, "value"]), rel=1e-4, abs=1e-6, nan_ok=True), key
        assert row["num_examples"] == int(theirs.loc[key, "num_examples"]), key
        compared += 1
    assert compared > 20 and {"Random", "AttInGrad"} <= set(table["method"])
    assert run.network.attention_implementation == "sdpa" and not run.network.training


@pytest.mark.slow
def test_columns_that_are_not_read_are_named_if_there_are_no_rationales(run, tables, capsys):
    unnamed = tables["test"].rename(columns={"rationales": "evidence"})
    run.measure(unnamed, [Random()], preset="sparsity")
    assert "so there are no rationales; columns that are not read: evidence\n" in capsys.readouterr().out
    run.measure(tables["test"], [Random()], preset="sparsity")
    assert "no rationales" not in capsys.readouterr().out


def test_texts_that_are_cut_are_counted(run, capsys):
    texts = ["w1 w2", " ".join(["w7"] * 100)]
    for read in (run.predict, lambda texts: run.explain(texts, "Random")):
        read(texts)
        assert capsys.readouterr().out == "the network reads only the beginning of 1 of 2 texts\n"
        read(texts[:1])
        assert capsys.readouterr().out == ""


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["edin", "edin_code", "aml"])  # methods have files of the same name
def test_a_preset_is_found_by_its_name(preset):
    assert evaluation_of(preset).preset == preset


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["er", "er_plausibility"])
def test_plausibility_of_a_wrong_prediction_is_that_of_the_labels_explanation(preset):
    inputs = TextInputs.of_ids([[5, 6, 7, 8]])
    of_both_classes = Attribution.of_scores([[[4.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]]], inputs.token_mask)
    evidence = Attribution.of_scores([[[1.0, 0.0, 0.0, 0.0]]], inputs.token_mask)  # for class 0, the label
    metric = evaluation_of(preset).metrics[0]

    def predict(inputs, embed_mask=None):
        return torch.tensor([[0.1, 0.9]])  # class 1, a wrong prediction

    metric.update(of_both_classes, Batch(inputs, torch.tensor([0]), evidence), predict)
    values = metric.compute()
    assert float(values["rationale/auroc"]) == 1 and int(values["num_examples"]) == 1


@pytest.mark.slow
def test_several_labels_for_a_network_with_exclusive_classes_are_refused(run, tables):
    table = tables["test"].assign(label=[["class0", "class1"]] * 7)
    with pytest.raises(ValueError, match="the data are multi-label, but .* is not: use data with one label per text"):
        run.measure(table, "Random", preset="sparsity")


def test_metrics_without_a_value_are_named(run, tables, capsys):
    table = run.measure(tables["test"].assign(rationales=[[]] * 7), [Random()], preset="er_plausibility")
    assert table.loc[table["preset"] == "er_plausibility", "value"].isna().all()
    assert "test: no value, because undefined for every explanation: rationale/" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "good"}, "label 'good' is not in class_names"),
        ({"text": None}, "text is missing"),
        ({"rationales": [[[0, 999]]] * 7}, "999"),
        ({"rationales": [[[0.5, 2]]] * 7}, "not a pair \\[begin, end\\] of whole numbers"),
        ({"label": torch.ones(1)}, "is a Tensor: write it as a string"),
    ],
    ids=["class", "no text", "long span", "fraction", "tensor"],
)
def test_examples_are_checked_as_files_are(run, tables, change, message):
    with pytest.raises(ValueError, match=message):
        run.measure(tables["test"].assign(**{k: [v] * 7 if not isinstance(v, list) else v for k, v in change.items()}),
                    "Random", validation=tables["validation"])  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run, table: run.explain("w1", method="AttInGradd"), "'AttInGradd': did you mean AttInGrad"),
        (lambda run, table: run.explain("w1", method="Transformed"), "method Transformed needs .*build it yourself"),
        (lambda run, table: run.explain("w1", method=AttInGrad), "give an AttributionMethod, the name of a class"),
        (lambda run, table: run.explain("w1", method=[]), "no attribution method is given"),
        (lambda run, table: run.explain(["w1", float("nan")]), r"texts\[1\] is nan, not a string"),
        (lambda run, table: run.predict(table), "texts is a DataFrame: .*table\\['text'\\]"),
        (lambda run, table: run.predict(["w1", "w2"], text_pair=["w3"]), "text_pair has 1 text, but texts has 2 texts"),
        (lambda run, table: run.explain("w1").save("scores.txt"), "scores.txt ends in '.txt'"),
        (lambda run, table: run.measure(table, "Random"), "'eraser' tunes thresholds .*pass `validation`"),
        (lambda run, table: run.measure(table, "Random", preset="erazer"), "no preset 'erazer': choose one of eraser"),
        (lambda run, table: run.measure(table, "Random", preset="methods/all.yaml"), "is not derived from Attrib"),
        (lambda run, table: run.measure(table[:0], "Random", preset="sparsity"), "examples has no rows"),
        (lambda run, table: run.measure(["w1"], "Random", preset="sparsity"), "examples is a list"),
        (lambda run, table: run.measure(table.rename(columns={"label": "codes"}), "Random", preset="sparsity"),
         "examples has no column label or labels; it has text, .*codes.*: rename a column"),
        (lambda run, table: run.measure(table, "Random", validation=table.drop(columns="text")),
         "validation has no column text; it has .*label.*: rename a column"),
        (lambda run, table: lx.load_run("no/such/run.ckpt"), "no such checkpoint"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(run, tables, call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call(run, tables["test"])
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_preflight_names_a_method_that_fails_and_how_to_leave_it_out(run, tables):
    class Wrong(Random):
        def scores(self, model, inputs, targets):
            return super().scores(model, inputs, targets)[..., :-1]

    with pytest.raises(ValueError, match=r"Wrong.*skip_unfit=True leaves them out"):
        run.measure(tables["test"], [Random(), Wrong()], preset="sparsity")
    table = run.measure(tables["test"], [Random(), Wrong()], preset="sparsity", skip_unfit=True, max_examples=3)
    assert "Random" in set(table["method"]) and table[table["left_out"] != ""]["method"].unique().tolist() == ["Wrong"]
    assert table.loc[table["metric"] == "accuracy", "num_examples"].tolist() == [3]
