"""A key that stands twice in a configuration is refused, in the main file as in the files that it names."""

import pytest

from lightning_xai.commands.parser.repeated_keys import check_repeated_keys
from tests.commands.conftest import METHODS, refusal, save, tiny_config

TWICE = "g: {class_path: lightning_xai.attributions.random.Random}"


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\na: 1", "{a: 1, b: [{c: {d: 1, d: 2}}]}", "a: 1\n'a': 2", "- b\n- {x: [], y: 3, x: null}"]
)
def test_repeated_key_is_refused(text):
    with pytest.raises(ValueError, match=r"the key '[adx]' is in line \d and again in line \d"):
        check_repeated_keys(text)


@pytest.mark.parametrize(
    "text", ["", "word", "a: {b: 1}\nb: {a: 1}", "a: 1\n'1': 2\n1: 3", "a: &x [1, {b: 2}]\nc: [*x, *x]"]
)
def test_other_texts_are_accepted(text):
    check_repeated_keys(text)


def test_second_method_of_one_name_does_not_replace_the_first_in_silence(tmp_path):
    part = tmp_path / "two.yaml"
    part.write_text(f"class_path: {METHODS['class_path']}\ninit_args:\n  methods:\n    {TWICE}\n    {TWICE}\n")
    config = save(tiny_config(callbacks=[str(part)]), tmp_path / "tiny.yaml")
    assert "the key 'g' is in line 4 and again in line 5" in refusal("fit", "--config", config, "--runs_dir", tmp_path)


def test_key_repeated_in_a_configuration_is_refused_with_the_name_of_the_file(tmp_path):
    config = tmp_path / "twice.yaml"
    config.write_text("trainer:\n  max_epochs: 1\n  max_epochs: 2\n")
    assert "twice.yaml: the key 'max_epochs' is in line 2 and again in line 3" in refusal("fit", "--config", config)
