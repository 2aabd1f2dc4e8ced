"""The printer of all tables: widths, blocks, wrapped names."""

import pytest

from lightning_xai.report.tables import Column, text_table, wrap


def columns(number: int, *, group: str = "") -> list[Column]:
    """Returns columns of one cell, each four characters wide with its gap."""
    return [Column(str(place), [f"{place:02d}"], group) for place in range(number)]


def blocks(table: str) -> list[list[str]]:
    """Returns the cells of the last line of each block."""
    return [block.splitlines()[-1].split()[1:] for block in table.split("\n\n")]


@pytest.mark.parametrize("width", [20, 33, 60, 80])
def test_no_line_is_wider_than_asked_for(width):
    wide = [Column(f"a_header_of_a_rather_long_name/{place}", ["0.1234"]) for place in range(9)]
    table = text_table(["a_method_of_a_rather_long_name_" * 3], wide, title="a long title " * 9, width=width)
    assert max(map(len, table.splitlines())) <= width


def test_name_without_a_place_to_break_is_cut():
    assert max(map(len, text_table(["m" * 99], [Column("h" * 99, ["1"])], width=40).splitlines())) <= 40


def test_every_cell_is_shown_once_in_its_order():
    shown = blocks(text_table(["row"], columns(50), width=30))
    assert sum(shown, []) == [f"{place:02d}" for place in range(50)]


def test_blocks_are_about_equally_wide():
    assert [len(cells) for cells in blocks(text_table(["row"], columns(8), width=31))] == [4, 4]  # and not 7 and 1


def test_group_stays_together():
    table = text_table(["row"], columns(3) + columns(4, group="cost"), width=23)
    assert blocks(table) == [["00", "01", "02"], ["00", "01", "02", "03"]]


def test_group_wider_than_a_line_is_split():
    assert sum(blocks(text_table(["row"], columns(6, group="cost"), width=15)), []) == [f"{i:02d}" for i in range(6)]


def test_headers_end_on_the_line_above_the_cells():
    table = text_table(["row"], [Column("span_recall", ["0.5"]), Column("f1", ["0.25"])])
    assert table.splitlines() == ["      span_", "     recall    f1", "row     0.5  0.25"]


def test_cells_stand_beside_the_last_line_of_a_wrapped_name():
    table = text_table(["integrated_gradients"], [Column("f1", ["0.25"])], width=30)
    assert table.splitlines() == ["               f1", "integrated_", "  gradients  0.25"]


def test_title_is_wrapped_at_the_width():
    assert text_table(["row"], [Column("f1", ["1"])], title="one two three", width=8).splitlines()[:2] == [
        "one two",
        "three",
    ]


@pytest.mark.parametrize("text", ["a/b_c.d-e f", "two  spaces", "line\nfeed", "", "/", "integrated_gradients"])
def test_wrapping_loses_no_character_but_spaces(text):
    lines = wrap(text, 4)
    assert "".join(lines).replace(" ", "") == text.replace("\n", "").replace(" ", "")
    assert max(map(len, lines)) <= 4
