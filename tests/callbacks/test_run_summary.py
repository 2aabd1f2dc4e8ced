from lightning_xai.callbacks.run_summary import RunSummary, data_lines
from lightning_xai.runs.progress import quiet
from tests.callbacks.conftest import planted_data, trainer

SIZES = {"examples": 7, "mean_tokens": 8.6, "padding_fraction": 0.0, "truncated_fraction": 0.0}


def test_run_network_and_data_are_printed_once(objective, tmp_path, capsys):
    run = trainer(tmp_path, RunSummary())
    for _ in range(2):
        run.test(objective, datamodule=planted_data(), verbose=False)
    printed = capsys.readouterr().out
    num_parameters = sum(parameter.numel() for parameter in objective.network.parameters())
    assert printed.count(f"{tmp_path}: Supervised, HFClassifier, {num_parameters:,} parameters") == 1
    assert printed.count("  test: 7 examples of") == 1


def test_later_runs_of_a_command_name_only_other_data(objective, tmp_path, capsys):
    with quiet():
        for experiment, size in (("a", 7), ("b", 7), ("c", 6)):
            run = trainer(tmp_path / experiment, RunSummary())
            run.test(objective, datamodule=planted_data(max_examples={"test": size}), verbose=False)
    printed = capsys.readouterr().out
    assert [printed.count(f"{tmp_path / experiment}: Supervised") for experiment in "abc"] == [1, 1, 1]
    assert printed.count("  test: 7 examples of") == printed.count("  test: 6 examples of") == 1
    assert printed.count("  validation:") == printed.count("unknown tokens: ") == 1


def test_truncation_and_weak_evidence_are_named():
    facts = {**SIZES, "truncated_fraction": 0.25, "evidence_kept_fraction": 0.5}
    (line,) = data_lines({"test": {**facts, "rationales_are_weak": True}})
    assert line == "  test: 7 examples of 9 tokens, 25% truncated, 50% of weak evidence kept"


def test_a_split_says_whether_its_own_evidence_is_weak(monkeypatch):
    data = planted_data()
    monkeypatch.setattr(data.source, "has_weak_rationales", lambda split: split == "validation")
    data.setup("fit")
    *_, train, validation = data_lines(data.summary())
    assert "of evidence kept" in train and "of weak evidence kept" in validation


def test_vocabulary_comes_with_its_coverage_by_pretrained_vectors():
    lines = data_lines({"num_words": 1200, "vector_coverage": 0.9})
    assert lines == ["  vocabulary: 1,200 words, 90% with a pretrained vector"]


def test_a_split_that_max_examples_limits_is_said_with_the_number_of_its_rows():
    data = planted_data(max_examples={"train": 5})
    data.setup("fit")
    *_, train, validation = data_lines(data.summary())
    assert train.startswith("  train: 5 examples of ") and f", chosen from {data.summary()['train']['rows']}" in train
    assert "chosen" not in validation and data.summary()["train"]["rows"] > 5
