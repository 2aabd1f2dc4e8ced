"""Specs of older formats are translated into today's names."""

from lightning_xai.runs import renamed_classes


def test_moved_classes_and_renamed_arguments_are_translated_at_every_depth(monkeypatch):
    monkeypatch.setattr(renamed_classes, "MOVED_CLASS_PATHS", {"old.Network": "new.Network"})
    monkeypatch.setattr(renamed_classes, "RENAMED_ARGUMENTS", {"new.Network": {"n": "num_layers"}})
    spec = {
        "class_path": "other.Wrapper",
        "init_args": {"n": 1, "inner": {"class_path": "old.Network", "init_args": {"n": 2}}},
    }
    inner = {"class_path": "new.Network", "init_args": {"num_layers": 2}}
    assert renamed_classes.current_spec(spec) == {"class_path": "other.Wrapper", "init_args": {"n": 1, "inner": inner}}


def test_a_spec_without_arguments_gets_none():
    assert renamed_classes.current_spec({"class_path": "a.B"}) == {"class_path": "a.B", "init_args": {}}
