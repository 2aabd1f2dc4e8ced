"""The image of a heatmap."""

import numpy as np

from lightning_xai.report.heatmap import EVIDENCE, background_color
from lightning_xai.report.heatmap_image import image
from tests.report.test_heatmap import document


def test_image_is_rgb_and_colors_the_scored_token():
    picture = image(document("good bad", [[0, 4], [5, 8]], [1.0, -1.0], spans=[(0, 4)]))
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    colors = {tuple(color) for color in picture.reshape(-1, 3).tolist()}
    assert {background_color(1.0), background_color(-1.0), EVIDENCE} <= colors  # for, against, evidence


def test_image_of_a_long_line_breaks_it():
    word = "word " * 200
    offsets = [[5 * i, 5 * i + 4] for i in range(200)]
    short, long = image(document("word", [[0, 4]], [1.0])), image(document(word, offsets, [1.0] * 200))
    assert long.shape[1] == short.shape[1] and long.shape[0] > short.shape[0]


def test_image_of_a_text_without_tokens_is_drawn():
    assert image(document("", [], [])).ndim == 3
