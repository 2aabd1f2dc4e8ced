"""A sequence of explained documents, which can be shown in notebooks, turned into a pandas table, and saved."""

from __future__ import annotations

import html
import json
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import overload

import pandas as pd

from lightning_xai.functional.text.quantity import quantity
from lightning_xai.report.explanation import json_record
from lightning_xai.report.heatmap import ExplainedDocument
from lightning_xai.report.heatmap_page import html_page
from lightning_xai.runs.files.whole_files import write_whole

FRAME_HEIGHT = 480  # in pixels; the page scrolls within the frame
COLUMNS = ["text", "class", "predicted", "probability", "method", "begin", "end", "token", "score"]


class Explanations(Sequence[ExplainedDocument]):
    """Explained documents in the order of the texts. A notebook shows them as heatmaps.

    Args:
        documents: the explained documents.
        title: title of the page of heatmaps.
        labels: row label of each text in tables, such as its index in a pandas Series; by default 0, 1, ...

    Example:
        >>> import numpy as np
        >>> from lightning_xai.report.heatmap import ExplainedClass
        >>> good = ExplainedClass("good", 0.75, gold=None, predicted=True, scores={"ig": np.array([2.0, -1.0])})
        >>> document = ExplainedDocument("text 0", "fine plot", np.array([[0, 4], [5, 9]]), [good])
        >>> explanations = Explanations([document])
        >>> len(explanations), explanations[0].text
        (1, 'fine plot')
        >>> explanations.to_frame()[["token", "score"]].to_dict("records")
        [{'token': 'fine', 'score': 2.0}, {'token': 'plot', 'score': -1.0}]
    """

    def __init__(
        self, documents: Iterable[ExplainedDocument], title: str = "", labels: Sequence[Hashable] | None = None
    ) -> None:
        self.documents = tuple(documents)
        self.title = title
        self.labels = list(range(len(self.documents)) if labels is None else labels)

    @overload
    def __getitem__(self, position: int) -> ExplainedDocument: ...

    @overload
    def __getitem__(self, position: slice) -> Explanations: ...

    def __getitem__(self, position: int | slice) -> ExplainedDocument | Explanations:
        """Returns a document if `position` is an index, and Explanations if it is a slice."""
        if isinstance(position, slice):
            return Explanations(self.documents[position], self.title, self.labels[position])
        return self.documents[position]

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        return f"<Explanations of {quantity(len(self), 'text')}: {self.title}>"

    def to_html(self) -> str:
        """Returns the heatmaps as a self-contained page."""
        return html_page(self.title, self.documents)

    def _repr_html_(self) -> str:
        """Returns the page in an iframe, so that the styles and the script of the page do not affect the notebook."""
        page = html.escape(self.to_html(), quote=True)
        style = f"width: 100%; height: {FRAME_HEIGHT}px; border: 0"
        return f'<iframe srcdoc="{page}" sandbox="allow-scripts" style="{style}"></iframe>'

    def to_frame(self) -> pd.DataFrame:
        """Returns a table with one row for each text, class, method and token.

        Columns: `text` (row label of the text), `class`, `predicted` (bool), `probability`, `method`, `begin` and `end`
        (character offsets of the token, end exclusive), `token` (its characters; empty for special tokens) and `score`.
        """
        rows = [
            (label, explained.name, explained.predicted, explained.probability, method, begin, end, text[begin:end], s)
            for label, document in zip(self.labels, self.documents, strict=True)
            for text in [document.text]
            for explained in document.classes
            for method, scores in explained.scores.items()
            for (begin, end), s in zip(document.offsets.tolist(), scores.tolist(), strict=True)
        ]
        return pd.DataFrame(rows, columns=COLUMNS)

    def save(self, path: str | Path) -> Path:
        """Writes heatmaps (.html), one JSON record per text (.jsonl) or the table (.csv), and returns the path.

        Raises:
            ValueError: the path does not have one of these suffixes.

        Example:
            >>> Explanations([]).save("scores.txt")
            Traceback (most recent call last):
            ValueError: scores.txt ends in '.txt': choose .html for heatmaps, .jsonl for records or .csv for a table
        """
        file = Path(path)
        if file.suffix == ".html":
            content = self.to_html()
        elif file.suffix == ".jsonl":
            content = "".join(json.dumps(json_record(d), ensure_ascii=False) + "\n" for d in self.documents)
        elif file.suffix == ".csv":
            content = self.to_frame().to_csv(index=False)
        else:
            raise ValueError(
                f"{path} ends in {file.suffix!r}: choose .html for heatmaps, .jsonl for records or .csv for a table"
            )
        write_whole(file, lambda partial: partial.write_text(content, encoding="utf-8"))
        return file
