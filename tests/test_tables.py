import math

import pandas as pd

from lightning_xai.callbacks.results import COLUMNS
from lightning_xai.tables import results_tables


def results(**rows: tuple[str, str, float]) -> pd.DataFrame:
    """Returns a table from name=(preset, method, value)."""
    common = {"split": "test", "num_examples": 5, "num_skipped": 1, "seed": 0, "forward_passes": 1.0}
    records = [
        {**common, "metric": name, "preset": preset, "method": method, "value": value}
        for name, (preset, method, value) in rows.items()
    ]
    return pd.DataFrame(records, columns=COLUMNS)


def test_no_line_is_wider_than_asked_for():
    wide = results(**{f"metric_with_a_long_name_{i}": ("preset", "method", 0.5) for i in range(9)})
    assert max(map(len, results_tables(wide, width=80).splitlines())) <= 80


def test_every_number_is_shown_once():
    table = results(accuracy=("", "", 0.875), comprehensiveness=("edin", "att_in_grad", 0.1234))
    shown = results_tables(table, width=80)
    assert shown.count("0.8750") == 1 and shown.count("0.1234") == 1


def test_undefined_numbers_are_a_dash_beside_others():
    shown = results_tables(results(auroc=("p", "random", math.nan), map=("p", "random", 0.5)), width=80)
    assert "auroc" not in shown
    two = pd.concat([results(auroc=("p", "random", math.nan)), results(auroc=("p", "attention", 0.5))])
    assert "random          -" in results_tables(two, width=80)


def test_preset_without_a_defined_number_says_so():
    assert "no number is defined" in results_tables(results(auroc=("p", "random", math.nan)), width=80)


def test_title_says_how_many_explanations_count():
    shown = results_tables(results(comprehensiveness=("edin", "random", 0.1)), width=80)
    assert "test, preset edin (explanations: 5 counted, up to 1 skipped)" in shown
