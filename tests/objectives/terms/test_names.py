"""Names of terms that logs or torch use already are refused, and so are terms with parameters."""

import pytest
from torch import nn

from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.terms.names import OWN_NAMES, check_term_names
from lightning_xai.objectives.terms.vat import VAT
from tests.conftest import tiny_classifier


@pytest.mark.parametrize("name", sorted({*OWN_NAMES, "accuracy", "macro_f1", "keys", "train", "training", "_buffers"}))
def test_a_name_in_use_is_refused_with_another(name):
    with pytest.raises(ValueError, match=f"a term is named '{name}', .* such as my_{name}"):
        check_term_names(["igr", name])


@pytest.mark.parametrize("name", ["a.b", "input gradient", "2nd", ""])
def test_a_name_that_is_no_identifier_is_refused(name):
    with pytest.raises(ValueError, match="use letters, digits and underscores"):
        check_term_names([name])


def test_other_names_are_allowed():
    check_term_names(["igr", "igr_2", "guidance"])


def test_a_term_with_a_parameter_is_refused():
    term = VAT()
    term.scale = nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"the term vat .VAT. has a parameter scale\.weight, which no optimizer would"):
        Supervised(tiny_classifier("bert"), terms={"vat": term})


def test_a_term_may_hold_a_frozen_network():
    term = VAT()
    term.teacher = nn.Linear(1, 1).requires_grad_(False)
    Supervised(tiny_classifier("bert"), terms={"vat": term})
