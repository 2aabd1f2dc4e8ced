"""ICD codes: the five replacements of ICD-10-CM codes, decimal points and shortened codes."""

import pytest

from lightning_xai.data.clinical.codes import cut_to_known, replaced_code, with_point

REPLACED = {
    "F32.A": "F32.9", "S02.122A": "S02.19XA", "D75.839": "D75.89", "F10.139": "F10.10", "G90.51": "G90.519",
}  # fmt: skip


@pytest.mark.parametrize(("code", "other"), REPLACED.items())
def test_an_icd_10_code_is_replaced_as_by_the_authors(code, other):
    assert replaced_code(code, "ICD-10-CM") == other
    assert replaced_code(other, "ICD-10-CM") == other
    assert replaced_code(code, "ICD-9-CM") == code  # another system


@pytest.mark.parametrize("code", ["F32.9", "S02.122B", "D75.83", "G90.5", "I10"])
def test_other_codes_are_kept(code):
    assert replaced_code(code, "ICD-10-CM") == code


@pytest.mark.parametrize(
    ("code", "system", "expected"),
    [("0010", "ICD-9-CM", "001.0"), ("V5861", "ICD-9-CM", "V58.61"), ("E8788", "ICD-9-CM", "E878.8")]
    + [("0066", "ICD-9-PCS", "00.66"), ("401", "ICD-9-CM", "401")],
)
def test_the_point_follows_the_third_character_except_in_e_codes_and_procedures(code, system, expected):
    assert with_point(code, system) == expected


def test_a_code_is_shortened_from_the_right_to_three_characters_at_least():
    assert cut_to_known("250.01", {"250.0", "250"}) == "250.0"
    assert cut_to_known("250.91", {"250"}) == "250"
    assert cut_to_known("250.91", {"25"}) is None
