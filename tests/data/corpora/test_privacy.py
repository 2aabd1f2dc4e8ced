"""Text of a private source stays out of runs, however deep the source is nested."""

import pytest

from lightning_xai.data.corpora.privacy import has_private_text, require_public, require_public_vocabulary
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
