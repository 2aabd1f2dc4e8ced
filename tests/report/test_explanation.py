"""What explain prints and writes of one text."""

from dataclasses import replace

import numpy as np

from lightning_xai.report.explanation import json_record, print_document
from lightning_xai.report.heatmap import ExplainedClass, ExplainedDocument


def shown(name="good") -> ExplainedDocument:
    scores = {"ig": np.array([2.0, -1.0]), "attention": np.array([0.25, 0.5])}
    magnitudes = frozenset(["attention"])
    explained = ExplainedClass(name, 0.75, None, False, scores, magnitudes=magnitudes)
    return ExplainedDocument("text 0", "fine plot", np.array([[0, 4], [5, 9]]), [explained])


def test_every_method_says_whether_its_scores_have_a_sign(capsys):
    print_document(shown())
    printed = capsys.readouterr().out
    assert "ig: + supports good, - opposes it" in printed and "attention: magnitudes without a sign" in printed
    assert "not predicted" in printed and "without these words" not in printed


def test_class_names_cannot_steer_the_terminal(capsys):
    print_document(shown("go\x1b[2Jod"))
    assert "\x1b" not in capsys.readouterr().out


def test_list_of_words_says_that_it_sums_tokens(capsys):
    document = shown()
    print_document(document)
    headed = "strongest words, each with the sum of its tokens' scores:\n        +2  "
    assert headed in capsys.readouterr().out
    document.classes[0].scores["ig"] = np.zeros(2)
    del document.classes[0].scores["attention"]
    print_document(document)
    assert "strongest words" not in capsys.readouterr().out


def test_unknown_tokens_are_counted_in_the_first_line_and_in_the_record(capsys):
    print_document(replace(shown(), num_unknown_tokens=1))
    assert capsys.readouterr().out.splitlines()[1] == "1 of 2 tokens is unknown to the network's vocabulary"
    print_document(shown())
    assert "unknown" not in capsys.readouterr().out
    assert json_record(replace(shown(), num_unknown_tokens=1))["num_unknown_tokens"] == 1


def test_the_line_about_a_cut_text_names_the_part_that_is_read(capsys):
    for text, line in (
        (shown().text + " and more", "the network reads only the first 9 of 18 characters"),
        (shown().text + " \n", "the network reads only the beginning of the second text"),
    ):
        print_document(replace(shown(), text=text, truncated=True))
        assert capsys.readouterr().out.splitlines()[1] == line
    assert json_record(replace(shown(), truncated=True))["truncated"] and not json_record(shown())["truncated"]


def test_record_has_all_methods():
    (record,) = json_record(shown())["classes"]
    assert record["scores"] == {"ig": [2.0, -1.0], "attention": [0.25, 0.5]}
