"""The interface for use from Python code, as in `import lightning_xai as lx; lx.load_run(...)`.

Example:
    This example loads a tiny random BERT and its tokenizer. In practice, give the folder of your own run.

    >>> import tempfile
    >>> import lightning_xai as lx
    >>> from lightning_xai.data.vocabulary import numbered_words, word_tokenizer
    >>> from lightning_xai.models.hf_classifier import random_bert
    >>> folder = tempfile.mkdtemp()
    >>> random_bert().transformer.save_pretrained(folder)
    >>> _ = word_tokenizer(numbered_words(15), split="whitespace", lowercase=False).save_pretrained(folder)
    >>> run = lx.load_run(folder)
    >>> run.class_names
    ['LABEL_0', 'LABEL_1']
    >>> run.predict(["w1 w7", "w2 w8"]).columns.tolist()
    ['predicted', 'p(LABEL_0)', 'p(LABEL_1)']
    >>> explanations = run.explain(["w1 w7", "w2 w8"], method="IntegratedGradients, AttInGrad")
    >>> explanations.to_frame().groupby("method")["score"].count().to_dict()
    {'AttInGrad': 8, 'IntegratedGradients': 8}
    >>> explanations._repr_html_().startswith("<iframe")
    True
    >>> examples = pd.DataFrame({"text": ["w1 w7", "w2 w8"], "label": ["LABEL_0", "LABEL_1"]})
    >>> table = run.measure(examples.assign(rationales=[[[0, 2]]] * 2), "Random", preset="sparsity")
    unknown tokens: test 0.0%
    >>> table.loc[table["method"] == "Random", "preset"].unique().tolist()
    ['sparsity']
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from lightning_xai.attributions.laws import check_method
from lightning_xai.callbacks.evaluation import AttributionEvaluation
from lightning_xai.callbacks.predictions import predictions_table
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.trained.given_texts import given_pairs, given_texts
from lightning_xai.commands.trained.measuring import measure
from lightning_xai.commands.trained.trained_run import Methods, TrainedRun, chosen_methods, load_trained_run
from lightning_xai.data.sources.columns import RationaleFormat
from lightning_xai.data.sources.laws import check_source
from lightning_xai.functional.network.modes import eager_attention
from lightning_xai.functional.text.quantity import quantity
from lightning_xai.metrics.laws import check_metric
from lightning_xai.models.base import Classifier
from lightning_xai.models.laws import check_model
from lightning_xai.objectives.laws import check_objective
from lightning_xai.objectives.terms.laws import check_term
from lightning_xai.report.explanations import Explanations
from lightning_xai.runs.progress import say

__all__ = [
    "Explanations",
    "Run",
    "check_method",
    "check_metric",
    "check_model",
    "check_objective",
    "check_term",
    "check_source",
    "load_run",
]


def load_run(path: str | Path, *, device: str = "cpu", trust_remote_code: bool = False) -> Run:
    """Loads a trained network as a `Run`, which predicts classes, explains predictions and measures explanations.

    Args:
        path: the folder of a run (its best checkpoint is loaded), a checkpoint in such a folder, or the folder or hub
            id of a Hugging Face model with a classification head.
        device: device on which the network runs, such as "cpu" or "cuda".
        trust_remote_code: whether Python code in the model's folder may run. Set this to True if the network was
            trained with such code.

    Raises:
        ValueError: there is no trained network at `path`, the checkpoint has no class names, or the tokenizer has
            changed since the network was trained.

    Example:
        >>> load_run("no/such/run.ckpt")
        Traceback (most recent call last):
        ValueError: no/such/run.ckpt: no such checkpoint
    """
    import_all()  # so that attribution methods are found by the names of their Python classes
    return Run(load_trained_run(str(path), device=device, trust_remote_code=trust_remote_code, with_hash=True))


class Run:
    """A trained network together with the encoder that tokenizes texts for the network. `load_run` returns a Run.

    Args:
        loaded: the network, its encoder and the training run that produced the network.

    Example:
        >>> from lightning_xai.data.vocabulary import VocabularyEncoder
        >>> from lightning_xai.models.checkpoints.checkpoint import TrainedNetwork
        >>> from lightning_xai.models.hf_classifier import random_bert
        >>> network = TrainedNetwork(random_bert(), ["bad", "good"])
        >>> run = Run(TrainedRun("memory", None, network, VocabularyEncoder(words=15)))
        >>> run.predict("w1 w2")["predicted"].tolist()
        ['bad']
    """

    def __init__(self, loaded: TrainedRun) -> None:
        self.loaded = loaded
        # built only for its checks: raises ValueError if, for example, the network has no class names. `text_pair` is
        # given, because a network that reads pairs of texts needs one
        loaded.explainer("Random", text_pair="")

    def __repr__(self) -> str:
        return (
            f"<Run {self.loaded.path}: {type(self.network).__name__} with {quantity(len(self.class_names), 'class')}>"
        )

    @property
    def network(self) -> Classifier:
        """The network, in eval mode."""
        return self.loaded.trained.network

    @property
    def class_names(self) -> list[str]:
        """The class names, in the order of the logits."""
        return list(self.loaded.trained.class_names or [])

    def predict(
        self, texts: str | Iterable[str] | pd.Series, *, text_pair: str | Iterable[str] | None = None
    ) -> pd.DataFrame:
        """Returns a table with a row for each text: the predicted classes, and the probabilities of all classes.

        Args:
            texts: one text, a list of texts or a pandas Series. For a Series, the table has the same index.
            text_pair: the second texts, if the network reads pairs of texts. A string is the second text of every
                example; a list has one second text per example.

        Returns:
            A table with the column `predicted` and a column `p(<class>)` for each class. If several classes are
            predicted for a text, `predicted` joins their names by "; ".

        Raises:
            ValueError: a text is not a string, or the network reads pairs and `text_pair` is missing.
        """
        given = given_texts(texts)
        pairs = given_pairs(text_pair, len(given.texts))
        predictions = list(self.loaded.explainer("Random", text_pair=pairs).predictions(given.texts))
        table = predictions_table(
            {row: probs.tolist() for row, (probs, _, _) in enumerate(predictions)},
            {row: predicted.tolist() for row, (_, predicted, _) in enumerate(predictions)},
            {row: "" for row in range(len(predictions))},
            self.class_names,
        )
        _say_cut([truncated for _, _, truncated in predictions])
        table.index = pd.Index(given.labels)
        return table.drop(columns="id")

    def explain(
        self,
        texts: str | Iterable[str] | pd.Series,
        method: Methods = None,
        *,
        num_classes: int = 3,
        text_pair: str | Iterable[str] | None = None,
    ) -> Explanations:
        """Returns explanations of the predictions for texts.

        A notebook shows the result as heatmaps. The method `to_frame` of the result returns a table, and its method
        `save` writes a file.

        Args:
            texts: one text, a list of texts or a pandas Series. For a Series, the result has the same index.
            method: one or several attribution methods. One method is an object, a class name ("AttInGrad") or a full
                class_path. Several methods are a list of these, or a string with commas ("AttInGrad,ALTI"). The
                default is integrated gradients with signed scores, which sum to the logit of the text minus the logit
                of the baseline. If a method has the argument `pooling`, its short name ("AttInGrad") selects the
                pooling that gives signed scores; a class_path keeps the default pooling. An object is used unchanged.
            num_classes: for multi-label data, the smallest number of classes to explain per text. All predicted classes
                are explained. If fewer than `num_classes` are predicted, the most probable other classes are added.
            text_pair: the second texts, if the network reads pairs of texts. A string is the second text of every
                example; a list has one second text per example.

        Raises:
            ValueError: a text is not a string, a method is unknown, or the network reads pairs and `text_pair` is
                missing.
        """
        given = given_texts(texts)
        pairs = given_pairs(text_pair, len(given.texts))
        methods = chosen_methods(method, signed=True)
        needs_attentions = any(chosen.needs_attentions for chosen in methods.values())
        with eager_attention(self.network, enabled=needs_attentions):
            explainer = self.loaded.explainer(list(methods.values()), num_classes=num_classes, text_pair=pairs)
            documents = list(explainer.documents(given.texts))
        _say_cut([document.truncated for document in documents])
        return Explanations(documents, f"{', '.join(methods)} on {self.loaded.path}", given.labels)

    def measure(
        self,
        examples: pd.DataFrame,
        methods: Methods = None,
        *,
        preset: str | AttributionEvaluation = "eraser",
        validation: pd.DataFrame | None = None,
        max_examples: int | None = None,
        rationale_format: RationaleFormat = "char_spans",
        skip_unfit: bool = False,
        batch_size: int = 32,
    ) -> pd.DataFrame:
        """Measures explanations as `run.py test` does, and returns the table that this command writes to results.csv.

        Unlike the command, this method writes no file.

        Args:
            examples: table with the columns `text` and `label` (name of a class) or, for multi-label data, `labels` (a
                list of names, or names joined by ";"). The columns `rationales`, `text_pair` and `id` are optional.
                `ColumnSource` describes the cells.
            methods: as `method` in `explain`, except that a method given by its short name keeps its default pooling.
            preset: name of a file in configs/presets ("edin", "er", ...), path of such a file, or an
                AttributionEvaluation.
            validation: table in the same format as `examples`. Presets such as "eraser" tune thresholds on this table.
            max_examples: largest number of examples used from each table; None uses all. The examples are chosen at
                random, but every call chooses the same examples.
            rationale_format: "char_spans" or "word_mask". With "char_spans", each rationale is a list of character
                spans [begin, end]; for multi-label data, it may also be a list of {"label": ..., "spans": [...]}. With
                "word_mask", each rationale is a list with 0 or 1 for each word, where white space separates words.
            skip_unfit: whether to leave out methods and metrics that fail in the preflight, a check on two short texts
                before the evaluation. If False, a failure raises an error.
            batch_size: largest number of examples in one forward pass.

        Raises:
            ValueError: a table has no rows or the wrong format; the preset is unknown; the preset tunes thresholds, but
                `validation` is None; or a method or metric fails in the preflight, and `skip_unfit` is False.
        """
        return measure(
            self.loaded,
            examples,
            methods,
            preset=preset,
            validation=validation,
            max_examples=max_examples,
            rationale_format=rationale_format,
            skip_unfit=skip_unfit,
            batch_size=batch_size,
        )


def _say_cut(truncated: list[bool]) -> None:
    """Prints a line if texts are longer than the network reads."""
    if number := sum(truncated):
        say(f"the network reads only the beginning of {number} of {quantity(len(truncated), 'text')}")
