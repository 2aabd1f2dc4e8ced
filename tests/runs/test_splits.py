"""Names of splits in log tags."""

from lightning_xai.runs.splits import VALIDATION, log_prefix


def test_validation_has_the_short_name_that_lightning_uses():
    assert log_prefix(VALIDATION) == "val"


def test_other_splits_keep_their_names():
    assert [log_prefix(split) for split in ("train", "test", "snli")] == ["train", "test", "snli"]
