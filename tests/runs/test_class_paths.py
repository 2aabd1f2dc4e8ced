"""Classes by name, checked against a base before anything is called."""

import collections.abc

import pytest

from lightning_xai.models.base import Classifier
from lightning_xai.runs.class_paths import imported_class, require_derived


@pytest.mark.parametrize(
    ("class_path", "problem"),
    [
        ("os.system", "os.system, which is not a class: name a class derived from Classifier"),
        ("lightning_xai.models.hf_classifier.random_bert", "is not a class"),
        ("lightning_xai.models.hf_classifier.HFClassifier.predict", "cannot be imported"),  # no module
        ("subprocess.Popen", "is not derived from Classifier"),
        ("torch.nn.Linear", "is not derived from Classifier"),
        ("lightning_xai.models.base.Classifier", "is abstract"),
        ("no_such_package.Network", "cannot be imported"),
        ("lightning_xai.models.base.Nothing", "cannot be imported"),
        ("Network", "cannot be imported"),
        ("", "cannot be imported"),
    ],
)
def test_other_names_than_of_a_derived_class_are_refused(class_path, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        imported_class(class_path, Classifier, key="network.class_path")
    assert str(caught.value).startswith("network.class_path names ") and "\n" not in str(caught.value)


def test_class_that_only_looks_like_the_base_is_refused():
    assert issubclass(list, collections.abc.Sized)  # since it has __len__
    with pytest.raises(ValueError, match="not derived from Sized"):
        require_derived(list, [collections.abc.Sized], key="items", class_path="builtins.list")


def test_any_of_several_bases_will_do():
    require_derived(bool, [str, int], key="flag", class_path="builtins.bool")
