"""Presents the explanation of a new text: as lines in a terminal, or as a record for a JSON Lines file."""

from __future__ import annotations

import sys
from typing import Any

from lightning_xai.report.characters import printable
from lightning_xai.report.heatmap import ExplainedDocument, ansi, reading_notes
from lightning_xai.report.strongest import bar_lines, strongest_words


def print_document(document: ExplainedDocument) -> None:
    """Prints each explained class with its probability and, for each method, the text and bars for the strongest words.

    On a terminal, the text is colored by the scores. The last line for each method gives the probability of the class
    for the text without the strongest words. The first lines say how many tokens are unknown, and which part of a
    truncated text the network reads.

    Example:
        >>> import numpy as np
        >>> from lightning_xai.report.heatmap import ExplainedClass
        >>> good = ExplainedClass("good", 0.75, gold=None, predicted=True, scores={"ig": np.array([2.0, -1.0])})
        >>> good.probability_without["ig"] = 0.5
        >>> print_document(ExplainedDocument("text 0", "fine plot", np.array([[0, 4], [5, 9]]), [good]))
        <BLANKLINE>
        good  p = 0.750  (predicted)
        <BLANKLINE>
        ig: + supports good, - opposes it
        fine plot
        strongest words, each with the sum of its tokens' scores:
                +2  ####################  fine
                -1  ##########            plot
        without these words: p = 0.500
    """
    if notes := reading_notes(document):
        print("\n" + "\n".join(notes))
    for explained in document.classes:
        name = printable(explained.name)
        print(f"\n{name}  p = {explained.probability:.3f}  ({'predicted' if explained.predicted else 'not predicted'})")
        for method, scores in explained.scores.items():
            has_sign = method not in explained.magnitudes
            meaning = f"+ supports {name}, - opposes it" if has_sign else "magnitudes without a sign"
            print(f"\n{method}: {meaning}")
            print(ansi(document, explained, method) if sys.stdout.isatty() else printable(document.text))
            if words := strongest_words(document, scores):
                print("strongest words, each with the sum of its tokens' scores:")
                print("\n".join(bar_lines(words, has_sign=has_sign)))
            if method in explained.probability_without:
                print(f"without these words: p = {explained.probability_without[method]:.3f}")


def json_record(document: ExplainedDocument) -> dict[str, Any]:
    """Returns a dictionary for JSON: the text, the tokens' character offsets [T, 2], and each class's scores [T].

    `num_unknown_tokens` counts the text's tokens that are the unknown token. `truncated` says whether the network reads
    only the beginning of the text or of its second text. For each method, `probability_without` has the class's
    probability after the words with the largest absolute scores are deleted.

    Example:
        >>> import numpy as np
        >>> from lightning_xai.report.heatmap import ExplainedClass
        >>> good = ExplainedClass("good", 0.75, gold=None, predicted=True, scores={"ig": np.array([2.0, -1.0])})
        >>> record = json_record(ExplainedDocument("text 0", "fine plot", np.array([[0, 4], [5, 9]]), [good]))
        >>> record["offsets"], record["classes"][0]["scores"]
        ([[0, 4], [5, 9]], {'ig': [2.0, -1.0]})
    """
    return {
        "text": document.text,
        "offsets": document.offsets.tolist(),
        "num_unknown_tokens": document.num_unknown_tokens,
        "truncated": document.truncated,
        "classes": [
            {
                "name": explained.name,
                "probability": explained.probability,
                "predicted": explained.predicted,
                "scores": {name: [float(f"{s:.6g}") for s in scores] for name, scores in explained.scores.items()},
                "probability_without": explained.probability_without,
            }
            for explained in document.classes
        ],
    }
