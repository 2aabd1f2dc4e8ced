"""Trimming of spans, on examples worked out by hand."""

import pytest

from lightning_xai.data.clinical.trimming import trimmed


@pytest.mark.parametrize(
    ("text", "span", "mdace", "edin"),
    [
        ("has gout today", (4, 8), "gout", "gou"),  # a space behind moves the end, though the span ends in a letter
        ("has gout, today", (4, 9), "gout", "gout"),
        ("has (gout) today", (4, 10), "(gout)", "gout"),
        ("has gout", (4, 8), "gout", "gout"),  # nothing behind
        ("has )gout( x", (4, 10), "gout", "gout"),
        ("a.-/, b", (1, 5), "", "-/"),
        ("a b", (2, 3), "b", "b"),
        ("a b c", (2, 3), "b", ""),
        ("x\n\nfever\n", (1, 8), "fever", "\nfeve"),
    ],
)
def test_trimmed(text, span, mdace, edin):
    begin, end = span
    assert text[slice(*trimmed(text, begin, end, "none"))] == text[begin:end]
    assert text[slice(*trimmed(text, begin, end, "mdace"))] == mdace
    assert text[slice(*trimmed(text, begin, end, "edin"))] == edin
