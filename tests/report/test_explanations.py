"""Explanations are a sequence, a table and a page, whatever the texts hold."""

import html

import numpy as np
import pytest

from lightning_xai.report.explanations import COLUMNS, Explanations
from lightning_xai.report.heatmap import ExplainedClass, ExplainedDocument


def document(text: str, *offsets: tuple[int, int]) -> ExplainedDocument:
    scores = {"ig": np.arange(len(offsets), dtype=float), "random": np.ones(len(offsets))}
    classes = [ExplainedClass(name, 0.5, gold=None, predicted=True, scores=scores) for name in ("good", "b; d")]
    return ExplainedDocument("text", text, np.array(offsets).reshape(-1, 2), classes)


def test_rows_are_ordered_by_text_class_method_and_token():
    table = Explanations([document("a b", (0, 0), (0, 1), (2, 3)), document("c", (0, 1))]).to_frame()
    assert table.columns.tolist() == COLUMNS and len(table) == 2 * 2 * (3 + 1)
    assert table["token"].tolist() == ["", "a", "b"] * 4 + ["c"] * 4
    assert table["score"].tolist()[:6] == [0.0, 1.0, 2.0, 1.0, 1.0, 1.0]
    assert table["text"].tolist() == [0] * 12 + [1] * 4


@pytest.mark.parametrize("documents", [[], [document("")]], ids=["no text", "an empty text"])
def test_nothing_to_explain_gives_an_empty_table_and_a_page(documents):
    explanations = Explanations(documents)
    assert explanations.to_frame().columns.tolist() == COLUMNS and explanations.to_frame().empty
    assert explanations._repr_html_().startswith("<iframe")


@pytest.mark.parametrize("text", ['"><script>x</script>', "caf\u00e9 \u4f60\u597d", "a & b &quot; 'c'"])
def test_the_frame_holds_the_page_as_one_attribute(text):
    explanations = Explanations([document(text, (0, len(text)))])
    before, page, after = explanations._repr_html_().split('"', 2)
    assert before == "<iframe srcdoc=" and after.startswith(" sandbox=")
    assert html.unescape(page) == explanations.to_html()


def test_a_slice_keeps_the_labels_and_the_title():
    explanations = Explanations([document("a", (0, 1)), document("b", (0, 1))], "ig on run", ["x", "y"])
    assert explanations[1:].labels == ["y"] and explanations[1:].title == "ig on run"
    assert [part.text for part in explanations] == ["a", "b"] and "2 texts: ig on run" in repr(explanations)
