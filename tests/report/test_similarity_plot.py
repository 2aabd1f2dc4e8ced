"""Drawn matrices: a cell for every number."""

import numpy as np

from lightning_xai.report.curves import figure_image
from lightning_xai.report.similarity_plot import Matrix, matrices_figure


def test_every_cell_shows_its_number():
    values = np.array([[1.0, 0.25], [np.nan, 1.0]])
    figure = matrices_figure([[Matrix("overlap", values), Matrix("correlation", values, -1.0)]], ["a", "b"])
    shown = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert shown == [["1.00", "0.25", "-", "1.00"]] * 2
    assert [axis.get_title() for axis in figure.axes] == ["overlap", "correlation"]
    assert figure_image(figure).shape[2] == 3
