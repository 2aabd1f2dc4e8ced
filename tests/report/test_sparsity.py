"""Curves of the preset "sparsity"."""

import pandas as pd
import pytest

from lightning_xai.report.sparsity import sparsity_panels


def test_sparsity_curves_come_from_the_preset(tmp_path):
    for seed in range(2):
        (tmp_path / "roar" / f"seed{seed}").mkdir(parents=True)
        names = [f"top_tokens/{k}" for k in (1, 2)] + ["top_percent/10", "num_examples"]
        results = pd.DataFrame({"metric": names, "value": [0.4 + 0.2 * seed, 0.8, 0.3, 7.0]})
        results = results.assign(preset="sparsity", split="test", method="gradient")
        results.to_parquet(tmp_path / "roar" / f"seed{seed}" / "results.parquet")
    tokens, percent = sparsity_panels([tmp_path / "roar"], "test")
    assert list(tokens.curves[0].x) == [1, 2] and list(tokens.curves[0].mean) == pytest.approx([50, 80])
    assert list(percent.curves[0].mean) == pytest.approx([30])


def test_experiment_without_the_preset_has_no_panel(tmp_path):
    (tmp_path / "roar" / "seed0").mkdir(parents=True)
    assert sparsity_panels([tmp_path / "roar"], "test") == []
