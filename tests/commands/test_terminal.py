"""Errors as a user reads them."""

from lightning_xai.commands.terminal import message_for_user, one_line, reasons
from lightning_xai.runs.stores.store import RaggedStore


def caught(function) -> Exception:
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_message_of_an_error_that_this_package_raised_is_shown(tmp_path):
    assert message_for_user(caught(lambda: RaggedStore(tmp_path))) == (
        f"{tmp_path} is not a store (it has no store.json): check the path"
    )


def test_error_of_another_package_is_not_shortened():
    assert message_for_user(caught(lambda: int("one"))) is None


def test_error_of_another_kind_is_not_shortened(tmp_path):
    def read_missing_key():
        from lightning_xai.runs.stores.store import RaggedWriter

        RaggedWriter(tmp_path).close()
        RaggedStore(tmp_path).get(0, 0)

    assert message_for_user(caught(read_missing_key)) is None


def test_list_of_the_types_that_a_parser_tried_is_left_out():
    message = (
        "Parser key 'a':\n  Does not validate against any of the Union subtypes\n  Subtypes: [int]\n  - wrong value"
    )
    assert one_line(message) == "Parser key 'a': wrong value"


def test_long_values_are_cut():
    assert len(one_line("x" * 500)) == 120


def test_errors_of_types_that_were_not_meant_are_left_out():
    message = (
        "Does not validate against any of the Union subtypes\nErrors:\n"
        "  - Percentages.__init__() got an unexpected keyword argument 'counts'\n  - counts are []: give one\n"
        "  - Not a valid subclass of Callback\n    Subclass types expect one of:\n    - a class path (str)\n"
    )
    assert reasons(message) == "counts are []: give one"


def test_message_is_shown_if_no_type_was_meant():
    assert reasons("Errors:\n  - Expected a <class 'float'>") == "Expected a <class 'float'>"
