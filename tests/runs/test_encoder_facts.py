"""Facts about encoders: which differences are refused, which are told, and which do not matter."""

from pathlib import Path
from typing import Any

import pytest

from lightning_xai.runs import encoder_facts
from lightning_xai.runs.encoder_facts import (
    changed_options,
    check_network_encoder,
    check_positions,
    encoder_metadata,
    is_plain,
)
from lightning_xai.runs.stores.store import RaggedWriter


def facts(fingerprint: str = "12ab", **arguments: Any) -> dict[str, Any]:
    return {"class_path": "a.Words", "init_args": arguments, "vocab_size": 9, "fingerprint": fingerprint}


@pytest.fixture(autouse=True)
def said_nothing_yet():
    encoder_facts._say_once.cache_clear()


@pytest.mark.parametrize(
    ("stored", "current", "remedy"),
    [
        (
            {"path": "m/a"},
            {"path": "m/a"},
            "the files at this path have changed since the training, so restore the earlier files",
        ),
        ({"path": "m/a"}, {"path": "m/b"}, "remove the path of the data's encoder, or set this path to m/a"),
        ({"words": ["a"]}, {"path": "m/b"}, "use the encoder in the config.yaml of the network's run"),
    ],
)
def test_another_tokenizer_is_refused_with_the_remedy_of_its_kind(stored, current, remedy):
    with pytest.raises(ValueError, match=f"my.ckpt was trained with Words.*{remedy}"):
        check_network_encoder(facts("12ab", **stored), facts("34cd", **current), "my.ckpt")


def test_other_options_of_the_same_tokenizer_are_told_once(capsys):
    for _ in range(2):
        check_network_encoder(facts(max_length=128, fill="mask"), facts(max_length=512, fill="mask"), "my.ckpt")
    printed = capsys.readouterr().out
    assert printed.count("my.ckpt was trained with other options of the encoder: max_length was 128, now 512") == 1


def test_stored_positions_need_the_same_options():
    check_positions(facts(fill="mask"), facts(fill="mask"), "erasures")
    check_positions(None, facts(), "erasures")  # written by an older version
    with pytest.raises(ValueError, match="erasures has token positions of another encoder: fill was mask, now pad"):
        check_positions(facts(fill="mask"), facts(fill="pad"), "erasures")
    with pytest.raises(ValueError, match="another encoder: prompt was none, now 5e6f; restore"):
        check_positions(facts(), {**facts(), "prompt": "5e6f"}, "erasures")


def test_prompts_are_compared_by_their_hashes_and_options_that_one_encoder_lacks_are_not():
    assert changed_options({**facts(), "prompt": "a"}, {**facts(), "prompt": "b"}) == "prompt was a, now b"
    assert changed_options(facts(max_length=9), facts(fill="mask")) == ""


def test_a_store_keeps_the_facts_with_which_it_was_begun(tmp_path):
    begun = encoder_metadata(tmp_path / "store", facts(fill="mask", words=["a", "b"]))
    assert begun == {"encoder": facts(fill="mask")}  # without the list of words
    with RaggedWriter(str(tmp_path / "store"), metadata=begun):
        pass
    assert encoder_metadata(tmp_path / "store", facts(fill="mask", words=["a", "b"])) == begun
    with pytest.raises(ValueError, match="store has token positions of another encoder"):
        encoder_metadata(tmp_path / "store", facts("34cd", fill="mask"))


@pytest.mark.parametrize("value", [{1: "a"}, [Path("a")], {"a": [{"b": object()}]}])
def test_values_that_json_would_change_are_not_plain(value):
    assert not is_plain(value)


def test_a_prompt_that_only_one_encoder_has_is_told():
    assert changed_options({**facts(), "prompt": "ab12"}, facts()) == "prompt was ab12, now none"
    assert changed_options(facts(), {**facts(), "prompt": "ab12"}) == "prompt was none, now ab12"
