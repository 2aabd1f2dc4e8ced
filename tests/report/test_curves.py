"""Drawn curves: colors, lines, bands, the legend and the order of panels."""

import numpy as np
from matplotlib.colors import to_hex
from PIL import Image

from lightning_xai.report.curves import REFERENCE_COLOR, Curve, Panel, curves_figure, figure_image, save_png


def curve(name, role="curve", values=(3.0, 2.0, 1.0)):
    values = np.array(values)
    return Curve(name, np.arange(3), values, values - 0.5, values + 0.5, role)


def panel(*curves):
    return Panel("title", "x", "y", curves)


def lines(axis):
    return {(to_hex(line.get_color()), line.get_linestyle()) for line in axis.get_lines()}


def test_control_has_the_color_of_its_curve_and_is_dashed():
    axis = curves_figure([panel(curve("a"), curve("b"), curve("b", "control"))]).axes[0]
    colors = {line.get_linestyle(): to_hex(line.get_color()) for line in axis.get_lines()[1:]}
    assert colors["-"] == colors["--"]


def test_reference_is_gray():
    assert lines(curves_figure([panel(curve("random", "reference"))]).axes[0]) == {(REFERENCE_COLOR, "-")}


def test_curve_has_the_same_color_in_every_panel():
    first, second = curves_figure([panel(curve("a"), curve("b")), panel(curve("b"))]).axes
    assert lines(second) == {(to_hex(first.get_lines()[1].get_color()), "-")}


def test_band_spans_the_interval():
    (axis,) = curves_figure([panel(curve("a"))]).axes
    (band,) = axis.collections
    limits = band.get_datalim(axis.transData)
    assert (limits.ymin, limits.ymax) == (0.5, 3.5)


def test_legend_names_every_curve_once_and_the_controls_together():
    figure = curves_figure([panel(curve("a"), curve("a", "control"), curve("random", "reference"))] * 2)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "random", "erased positions only"]


def test_panels_beyond_a_row_start_another():
    axes = curves_figure([panel(curve("a"))] * 4, max_columns=3).axes
    heights = {round(axis.get_position().y0, 2) for axis in axes[:4]}
    assert len(heights) == 2


def test_image_is_saved_as_it_is(tmp_path):
    image = figure_image(curves_figure([panel(curve("a"))]))
    save_png(image, tmp_path / "a.png.partial")
    assert np.array_equal(np.asarray(Image.open(tmp_path / "a.png.partial")), image)
    assert image.min() < 255  # something is drawn
