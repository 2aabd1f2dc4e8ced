"""Names of terms that logs or torch use already are refused."""

import pytest

from lightning_xai.objectives.terms.names import OWN_NAMES, check_term_names


@pytest.mark.parametrize("name", sorted({*OWN_NAMES, "accuracy", "macro_f1", "keys", "train"}))
def test_a_name_in_use_is_refused_with_another(name):
    with pytest.raises(ValueError, match=f"a term is named '{name}', .* such as my_{name}"):
        check_term_names(["igr", name])


@pytest.mark.parametrize("name", ["a.b", "input gradient", "2nd", ""])
def test_a_name_that_is_no_identifier_is_refused(name):
    with pytest.raises(ValueError, match="use letters, digits and underscores"):
        check_term_names([name])


def test_other_names_are_allowed():
    check_term_names(["igr", "igr_2", "guidance"])
