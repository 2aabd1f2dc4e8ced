"""A local copy of the Hugging Face hub, for tests of hub ids."""

from pathlib import Path

import huggingface_hub
import pytest


@pytest.fixture
def hub_copy(tmp_path, monkeypatch):
    """Returns a function that makes an empty snapshot of a hub id, as downloads leave it in the cache."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def snapshot(name: str) -> Path:
        repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        for folder in ("refs", f"snapshots/{'a' * 40}"):
            (repository / folder).mkdir(parents=True)
        (repository / "refs" / "main").write_text("a" * 40)
        return repository / "snapshots" / ("a" * 40)

    return snapshot
