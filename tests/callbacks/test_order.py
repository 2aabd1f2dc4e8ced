import pytest
from lightning import Callback

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.order import check_order
from tests.callbacks.conftest import Recorder, compute, evaluation


@pytest.mark.parametrize(
    ("callbacks", "named"),
    [
        ([Recorder()], "Recorder has on_explained"),
        ([Callback(), Recorder(), compute(Random()), evaluation()], "Recorder has on_explained"),
        ([evaluation("early"), compute(Random())], r"AttributionEvaluation\('early'\) has on_explained"),
        (
            [compute(Random()), compute(Random()), evaluation()],
            r"\(Random\) is followed by ComputeAttributions\(Random\)",
        ),
        ([compute(Random()), compute(Gradient()), evaluation()], r"\(Random\) is followed by .*\(Gradient\)"),
        ([compute(Random()), Callback(), compute(Gradient()), Recorder()], "no callback between them uses"),
        ([compute(Random()), Recorder(), compute(Gradient())], r"no callback after ComputeAttributions\(Gradient\)"),
    ],
)
def test_callbacks_whose_attributions_would_be_lost_are_refused_by_name(callbacks, named):
    with pytest.raises(ValueError, match=named):
        check_order(callbacks)


@pytest.mark.parametrize(
    "callbacks",
    [
        [],
        [compute(Random())],
        [compute(Random()), evaluation("a"), Callback(), compute(Gradient()), Recorder(), evaluation("b")],
    ],
)
def test_other_orders_are_accepted(callbacks):
    check_order(callbacks)
