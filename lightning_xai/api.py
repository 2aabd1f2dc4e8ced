"""The Python interface, as in `import lightning_xai as lx; lx.load_run(...)`.

Example:
    Here a folder with a tiny random BERT and its tokenizer takes the place of your run.

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
    """Loads a trained network, with methods that predict classes of texts, explain them and measure explanations.

    Args:
        path: folder of a run, whose best checkpoint is used; a checkpoint in such a folder; or a Hugging Face folder
            or hub id with a classification head.
        device: device that runs the network, such as "cpu" or "cuda".
        trust_remote_code: whether Python code in the model's folder may run. If the network was trained with such code,
            this must be True.

    Raises:
        ValueError: there is no trained network at `path`, its file has no class names, or its tokenizer has changed
            since the network was trained.

    Example:
        >>> load_run("no/such/run.ckpt")
        Traceback (most recent call last):
        ValueError: no/such/run.ckpt: no such checkpoint
    """
    import_all()  # so that methods are found by the names of their classes
    return Run(load_trained_run(str(path), device=device, trust_remote_code=trust_remote_code, with_hash=True))


class Run:
    """A trained network, with the encoder that tokenizes its texts. Call `load_run` to get one.

    Args:
        loaded: the network, its encoder and the run that trained it.

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
        loaded.explainer("Random", text_pair="")  # raises ValueError if the network has no class names

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
            texts: one text, a list of texts or a pandas Series. The result has the index of the Series.
            text_pair: the second text, if the network reads pairs: one for all examples, or a list with one for each.

        Returns:
            The table, with the columns `predicted` (several classes are joined by "; ") and `p(<class>)`.

        Raises:
            ValueError: a text is not a string, or the network reads pairs and `text_pair` is missing.
        """
        given = given_texts(texts)
        pairs = given_pairs(text_pair, len(given.texts))
        predictions = list(self.loaded.explainer("Random", text_pair=pairs).predictions(given.texts))
        table = predictions_table(
            {row: probs.tolist() for row, (probs, _) in enumerate(predictions)},
            {row: predicted.tolist() for row, (_, predicted) in enumerate(predictions)},
            {row: "" for row in range(len(predictions))},
            self.class_names,
        )
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
        """Explains texts. A notebook shows the result as heatmaps; `to_frame` and `save` give tables and files.

        Args:
            texts: one text, a list of texts or a pandas Series. The result has the index of the Series.
            method: name of a method ("AttInGrad", or "AttInGrad,ALTI" for two, or a full class_path), a method object,
                or a list of these. The default is integrated gradients with signed scores, which sum to the text's
                logit minus the baseline's logit. If a method is given by its name and has the argument `pooling`, its
                scores are signed; a method object keeps its own pooling.
            num_classes: on multi-label data, this many of the most probable classes are explained even if they are not
                predicted. All predicted classes are always explained.
            text_pair: the second text, if the network reads pairs: one for all examples, or a list with one for each.

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
        """Measures explanations as `run.py test` does, and returns the table of results.csv. Writes no file.

        Args:
            examples: table with the columns `text`, `label` or `labels` (names of classes; a list, or names joined by
                ";", on multi-label data). The columns `rationales`, `text_pair` and `id` are optional. Cells have the
                format that configs/data/files.yaml describes.
            methods: like `method` in `explain`, but a method given by its name gets the default arguments of its class.
            preset: name of a file in configs/presets ("edin", "er", ...), path of such a file, or an
                AttributionEvaluation.
            validation: table like `examples`, for presets that tune thresholds, such as "eraser".
            max_examples: largest number of examples used from each table; None uses all. They are chosen at random, but
                each call chooses the same ones.
            rationale_format: "char_spans" if each rationale is a list of [begin, end], or of {"label", "spans"} on
                multi-label data; "word_mask" if it is a list with 0 or 1 for each word (separated by white space).
            skip_unfit: whether to leave out methods and metrics that fail in the preflight, a check on two short texts
                before the evaluation. If False, a failure raises an error.
            batch_size: largest number of examples in one forward pass.

        Raises:
            ValueError: a table has no rows or the wrong format, the preset is unknown or tunes thresholds although
                there is no `validation`, or a method or metric fails in the preflight.
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
