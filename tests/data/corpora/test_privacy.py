"""Text of a private source stays out of runs, however deep the source is nested."""

from pathlib import Path

import pytest

from lightning_xai.data.corpora.privacy import (
    has_private_text,
    require_cache_apart,
    require_public,
    require_public_vocabulary,
)
from lightning_xai.data.sources.bundle import Bundle
from lightning_xai.data.sources.out_of_domain import OutOfDomain
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder


class Notes(Planted):
    text_is_private = True


@pytest.mark.parametrize("source", [Notes(), Bundle([Notes()]), OutOfDomain(Planted(), {"notes": Notes()})])
def test_a_source_with_a_private_part_is_private(source):
    assert has_private_text(source)
    with pytest.raises(ValueError, match="Heatmaps shows texts, but the text of .* is private: leave it out, or set"):
        require_public(source, "Heatmaps shows texts", "leave it out")


def test_public_sources_are_not_refused():
    source = OutOfDomain(Planted(), {"other": Planted()})
    assert not has_private_text(source)
    require_public(source, "Heatmaps shows texts", "leave it out")


def test_an_encoder_may_not_learn_words_of_private_texts():
    require_public_vocabulary(Notes(), VocabularyEncoder(words=95))  # the words are given
    with pytest.raises(ValueError, match="VocabularyEncoder learns from the training texts.*every checkpoint"):
        require_public_vocabulary(Notes(), VocabularyEncoder())


@pytest.mark.parametrize("cache", ["runs", "runs/cache", "other/../runs/cache"])
def test_the_cache_of_private_texts_may_not_be_inside_the_folder_of_the_runs(cache):
    with pytest.raises(ValueError, match="the cache .* is inside runs, .*: set cache_dir or "):
        require_cache_apart(Bundle([Notes()]), Path(cache), Path("runs"))
    require_cache_apart(Planted(), Path(cache), Path("runs"))


@pytest.mark.parametrize("cache", ["cache", "runs2", ".", "runs/../cache"])
def test_private_texts_may_be_cached_elsewhere(cache):
    require_cache_apart(Notes(), Path(cache), Path("runs"))
