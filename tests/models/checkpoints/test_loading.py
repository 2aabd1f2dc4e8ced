"""Networks are built from specs, which must name a classifier, and weights that do not fit are named."""

import pytest
import torch

from lightning_xai.models.checkpoints.loading import build_network, first_difference
from lightning_xai.runs import renamed_classes


@pytest.mark.parametrize(
    ("class_path", "message"),
    [
        ("os.system", "not a class: name a class derived from Classifier"),
        ("torch.nn.Linear", "not derived from Classifier"),
        ("lightning_xai.models.base.Nothing", "cannot be imported"),
        ("no_such_package.Model", "cannot be imported"),
        ("Model", "cannot be imported"),
    ],
)
def test_class_path_must_name_a_classifier(class_path, message):
    with pytest.raises(ValueError, match=message):
        build_network({"class_path": class_path, "init_args": {}})


def test_a_spec_of_an_older_format_is_built_from_todays_class(monkeypatch):
    path = "lightning_xai.models.bilstm.BiLSTMAttention"
    monkeypatch.setattr(renamed_classes, "MOVED_CLASS_PATHS", {"lightning_xai.old.LSTM": path})
    monkeypatch.setattr(renamed_classes, "RENAMED_ARGUMENTS", {path: {"num_words": "vocab_size"}})
    network = build_network({"class_path": "lightning_xai.old.LSTM", "init_args": {"num_words": 9}})
    assert network.embedding_matrix.shape == (9, 300)


def test_equal_shapes_have_no_difference():
    assert first_difference({"a": torch.zeros(2)}, {"a": torch.ones(2)}) is None


def test_the_first_difference_is_the_first_by_name():
    weights = {"b": torch.zeros(2), "c": torch.zeros(3), "d": torch.zeros(1)}
    needed = {"a": torch.zeros(1), "b": torch.zeros(2), "c": torch.zeros(4)}
    assert first_difference(weights, needed) == ("a", "absent", (1,))
    assert first_difference(weights, {"b": needed["b"], "c": needed["c"]}) == ("c", (3,), (4,))
    assert first_difference(weights, {"b": needed["b"], "c": weights["c"]}) == ("d", (1,), "absent")


def test_a_number_has_a_shape_of_its_own():
    assert first_difference({"a": torch.tensor(1.0)}, {}) == ("a", (), "absent")
