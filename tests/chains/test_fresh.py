"""FRESH: its runs, the rationales that it stores, and the chains that it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

from lightning_xai.attributions.attention_gradient import AttentionGradient
from lightning_xai.attributions.cached import Cached
from lightning_xai.attributions.gradient import Gradient
from lightning_xai.callbacks.preflight.preflight import Preflight
from lightning_xai.chains.fresh import FRESH
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.runs.format import with_format
from lightning_xai.runs.stores.store import RaggedStore, RaggedWriter
from tests.callbacks.conftest import planted_data, trainer
from tests.conftest import tiny_classifier


class TwoDomains(Planted):
    """Planted signals with a test set of another domain."""

    def load(self):
        rows = super().load()
        rows["other"] = rows["test"].select([4, 1, 5])
        return rows


def two_domains(**arguments) -> TextDataModule:
    source = TwoDomains(num_classes=3, num_train=8, num_validation=6, num_test=7, words_per_document=(4, 10))
    return TextDataModule(source, VocabularyEncoder(words=95, max_length=32), **arguments)


def extract(folder: Path, objective, callback: FRESH) -> TextDataModule:
    """Trains the extractor for an epoch and tests it, as the command does."""
    fit = trainer(folder, callback, max_epochs=1, enable_checkpointing=False)
    module = two_domains(eval_batch_size=3)
    fit.fit(objective, datamodule=module)
    fit.test(objective, datamodule=module, verbose=False)
    return module


def kept(root: Path, method: str, split: str) -> list[list[int]]:
    """Returns the positions of each example that are not erased, special tokens included."""
    store = RaggedStore(root / "erasures" / method / split)
    return [(store.get(index, 0) < 0.5).nonzero()[0].tolist() for index, _ in store.keys()]


def test_every_method_is_a_run_after_the_extractor():
    stages = FRESH({"ig": Gradient(), "attention": AttentionGradient()}).stages
    assert [(stage.name, stage.erasures) for stage in stages] == [("", ""), ("ig", "ig"), ("attention", "attention")]
    assert stages[1].removal == "delete"


def test_classifier_has_a_configuration_of_its_own():
    stage = FRESH({"ig": Gradient()}, classifier="plain.yaml").stages[1]
    assert stage.config == "plain.yaml"


@pytest.mark.slow
def test_rationale_is_that_of_the_predicted_class_in_every_split(tmp_path, objective):
    module = extract(tmp_path / "fresh" / "seed0", objective, FRESH({"gradient": Gradient()}, ratio=0.3))
    objective.eval()
    for split in ("train", "validation", "test", "other"):
        wanted = []
        for position in range(len(module.split(split))):
            batch = module.collate(module.split(split)[[position]])
            predicted = objective.network.predict(batch.inputs).argmax(dim=1, keepdim=True)
            scores = Gradient().attribute(objective.network, batch.inputs, predicted).scores[0, 0].tolist()
            mask = batch.inputs.token_mask[0]
            free = sorted(mask.nonzero().flatten().tolist(), key=lambda t: -scores[t])
            count = -(-3 * len(free) // 10)
            wanted.append(sorted(free[:count] + (~mask).nonzero().flatten().tolist()))
        assert kept(tmp_path / "fresh" / "seed0", "gradient", split) == wanted


@pytest.mark.slow
def test_length_is_rounded_up_exactly(tmp_path, objective):
    callback = FRESH({"gradient": Gradient()}, ratio=0.2, split_ratios={"other": 0.5})
    module = extract(tmp_path / "fresh" / "seed0", objective, callback)
    for split, divisor in (("test", 5), ("other", 2)):
        found = [len(tokens) for tokens in kept(tmp_path / "fresh" / "seed0", "gradient", split)]
        masks = [encoded.token_mask for encoded in module.split(split).encoded]
        assert found == [-(-int(mask.sum()) // divisor) + int((~mask).sum()) for mask in masks]


@pytest.mark.slow
def test_contiguous_rationale_has_no_gap(tmp_path, objective):
    callback = FRESH({"gradient": Gradient()}, ratio=0.4, selection="contiguous")
    module = extract(tmp_path / "fresh" / "seed0", objective, callback)
    for tokens, encoded in zip(
        kept(tmp_path / "fresh" / "seed0", "gradient", "train"), module.split("train").encoded, strict=True
    ):
        chosen = [t for t in tokens if encoded.token_mask[t]]
        assert chosen == list(range(chosen[0], chosen[0] + len(chosen)))


@pytest.mark.slow
def test_classifier_reads_nothing_but_the_rationale(tmp_path, objective):
    root = tmp_path / "fresh" / "seed0"
    module = extract(root, objective, FRESH({"gradient": Gradient()}, ratio=0.3))
    left = two_domains(erasures=str(root / "erasures" / "gradient"), erasure="delete")
    for split in ("train", "other"):
        for tokens, whole, rationale in zip(
            kept(root, "gradient", split), module.split(split).encoded, left.split(split).encoded, strict=True
        ):
            assert rationale.input_ids.tolist() == whole.input_ids[tokens].tolist()


@pytest.mark.slow
def test_method_that_needs_attentions_leaves_the_implementation_as_it_was(tmp_path):
    objective = Supervised(tiny_classifier("bert"))
    before = objective.network.attention_implementation
    extract(tmp_path / "fresh" / "seed0", objective, FRESH({"scaled_attention": AttentionGradient()}))
    assert objective.network.attention_implementation == before != "eager"


def test_test_without_a_fit_writes_no_rationales(tmp_path, objective):
    trainer(tmp_path, FRESH({"gradient": Gradient()})).test(objective, datamodule=planted_data(), verbose=False)
    assert not (tmp_path / "erasures").exists()


def test_classifiers_own_run_extracts_nothing(tmp_path, objective):
    root, run = tmp_path / "fresh" / "seed0", tmp_path / "fresh" / "gradient" / "seed0"
    root.mkdir(parents=True)
    (root / "manifest.json").write_text(json.dumps(with_format({"status": "finished"})))
    extract(run, objective, FRESH({"gradient": Gradient()}))
    assert not (run / "erasures").exists() and not (root / "erasures").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"methods": {}}, "give one or more"),
        ({"methods": {"full text": Gradient()}}, "or full text, report"),
        ({"methods": {"a/b": Gradient()}}, "letters, digits, spaces"),
        ({"ratio": 0.0}, "ratio is 0.0"),
        ({"split_ratios": {"imdb": 2}}, "split_ratios.imdb is 2"),
        ({"selection": "best"}, "selection is 'best'"),
        ({"metric": "f1"}, "metric is 'f1'"),
    ],
)
def test_impossible_chain_is_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        FRESH(**({"methods": {"gradient": Gradient()}} | arguments))


def test_multilabel_data_is_refused(tmp_path):
    objective = Supervised(tiny_classifier("bert", multilabel=True))
    with pytest.raises(ValueError, match="use single-label data"):
        trainer(tmp_path, FRESH({"gradient": Gradient()})).test(objective, datamodule=planted_data(), verbose=False)


def test_ratio_of_an_unknown_split_is_refused(tmp_path, objective):
    callback = FRESH({"gradient": Gradient()}, split_ratios={"imdb": 0.02})
    with pytest.raises(ValueError, match="split 'imdb': choose from train, validation, test"):
        trainer(tmp_path, callback).test(objective, datamodule=planted_data(), verbose=False)


def test_scores_of_too_few_texts_are_refused_before_the_training(tmp_path, objective):
    data = planted_data()
    for split, num_stored in (("train", 8), ("validation", 6), ("test", 6)):
        with RaggedWriter(tmp_path / "scores" / split) as writer:
            for row in range(num_stored):
                for target in range(3):
                    writer.add(row, target, np.ones(len(data.encoded(split, row).input_ids)))
    callback = FRESH({"stored": Cached(str(tmp_path / "scores" / "{split}"))})
    fit = trainer(tmp_path / "seed0", Preflight(tests_after_fit=True), callback, max_epochs=1)
    message = "method stored .Cached. of FRESH: .*test has scores of 6 of 7 examples, .* example with index 6"
    with pytest.raises(ValueError, match=message):
        fit.fit(objective, datamodule=data)
    assert fit.global_step == 0
