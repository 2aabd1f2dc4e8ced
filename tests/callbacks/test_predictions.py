"""The file of predictions."""

import pandas as pd

from lightning_xai.callbacks.predictions import PredictionsFile, predictions_table
from tests.callbacks.conftest import planted_data, trainer


def test_rows_are_ordered_by_example_and_name_all_predicted_classes():
    probabilities, predicted = {3: [0.9, 0.8], 1: [0.1, 0.2]}, {3: [True, True], 1: [False, False]}
    table = predictions_table(probabilities, predicted, {1: "a", 3: "b"}, ["x", "y"])
    assert table["id"].tolist() == ["a", "b"] and table["predicted"].tolist() == ["", "x; y"]
    assert table["p(y)"].tolist() == [0.2, 0.8]


def test_file_does_not_depend_on_batch_size(objective, tmp_path):
    tables = []
    for size in (1, 32):
        file = tmp_path / f"{size}.csv"
        run = trainer(tmp_path, PredictionsFile(file))
        run.predict(objective, datamodule=planted_data(eval_batch_size=size), return_predictions=False)
        tables.append(pd.read_csv(file))
    one, many = tables
    pd.testing.assert_frame_equal(one, many)
