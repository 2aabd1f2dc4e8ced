import json
import re
from itertools import accumulate

import pytest
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lightning_xai.attributions.input_x_gradient import InputXGradient
from lightning_xai.attributions.random import Random
from lightning_xai.callbacks.heatmaps import Heatmaps
from lightning_xai.data.sources.planted import Planted
from tests.callbacks.conftest import compute, planted_data, trainer


def drawn(folder, objective, *, stage="test", data=None, targets="all", **arguments) -> dict:
    """Returns the data of the page that a run writes."""
    data = data or planted_data()
    heatmaps = Heatmaps(**({"num_documents": 4} | arguments))
    run = trainer(folder, compute(Random(), InputXGradient(), targets=targets), heatmaps)
    getattr(run, stage)(objective, datamodule=data)
    split = "validation" if stage == "validate" else "test"
    page = (folder / "heatmaps" / f"{split}.html").read_text()
    data_element = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data_element is not None
    return json.loads(data_element.group(1))


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_page_is_drawn_in_every_stage(objective, tmp_path, stage):
    page = drawn(tmp_path, objective, stage=stage)
    assert [document["name"][-2:] for document in page["documents"]] == ["-0", "-1", "-2", "-3"]


@pytest.mark.parametrize("stage", ["test", "predict"])
def test_a_limit_that_leaves_no_document_to_draw_is_reported(objective, tmp_path, capsys, stage):
    def printed(splits: list[str]) -> str:
        run = trainer(tmp_path, compute(Random()), Heatmaps(1, splits), **{f"limit_{stage}_batches": 1})
        data = planted_data(eval_batch_size=1)
        first = data.split("test").lengths.argmax()
        assert first != 0  # the longest example comes first, so that the limit leaves out the example with index 0
        getattr(run, stage)(objective, datamodule=data)
        return capsys.readouterr().out

    line = f"no heatmaps for test: none of the first 1 example is in the batches that trainer.limit_{stage}_batches"
    assert line in printed(["test"])
    assert "no heatmaps" not in printed(["other"])


def test_several_heatmaps_of_a_run_write_pages_and_images_of_their_own(objective, tmp_path):
    logger = TensorBoardLogger(tmp_path, name="", version="")
    unrelated = Heatmaps(1, ["validation"])
    callbacks = [compute(Random()), unrelated, Heatmaps(1), compute(InputXGradient()), Heatmaps(1)]
    trainer(tmp_path, *callbacks, logger=logger).test(objective, datamodule=planted_data(), verbose=False)
    pages = {path.name: path.read_text() for path in (tmp_path / "heatmaps").iterdir()}
    assert pages.keys() == {"test.html", "test.2.html"}
    assert ['"InputXGradient"' in pages[name] for name in ("test.html", "test.2.html")] == [False, True]
    assert {"heatmaps/test/0", "heatmaps/test.2/0"} == set(EventAccumulator(str(tmp_path)).Reload().Tags()["images"])


def test_methods_stand_side_by_side_for_every_class(objective, tmp_path):
    for document in drawn(tmp_path, objective)["documents"]:
        assert [chosen["name"] for chosen in document["classes"]] == ["class0", "class1", "class2"]
        assert all(list(chosen["percents"]) == ["Random", "InputXGradient"] for chosen in document["classes"])


def test_scores_without_a_sign_are_called_magnitudes(objective, tmp_path):
    for document in drawn(tmp_path, objective)["documents"]:
        assert all(chosen["magnitudes"] == ["InputXGradient", "Random"] for chosen in document["classes"])


def test_evidence_is_shown_with_the_gold_class_only(objective, tmp_path):
    data = planted_data()
    for index, document in enumerate(drawn(tmp_path, objective, data=data)["documents"]):
        (rationale,) = data.example("test", index)["rationales"]
        ends = list(accumulate(map(len, document["pieces"]), initial=0))
        spans = {c["name"]: [[ends[k], ends[k + 1]] for k in c["evidence"]] for c in document["classes"]}
        assert spans.pop(f"class{rationale['label']}") == rationale["spans"]
        assert set(map(len, spans.values())) == {0}


def test_page_does_not_depend_on_batch_size(objective, tmp_path):
    one, many = (
        drawn(tmp_path, objective, data=planted_data(eval_batch_size=size), targets="gold") for size in (1, 32)
    )
    assert [d["pieces"] for d in one["documents"]] == [d["pieces"] for d in many["documents"]]


def test_weak_evidence_is_called_weak(objective, tmp_path):
    data = planted_data()
    data.source.rationales_are_weak = True
    assert "weak" in drawn(tmp_path, objective, data=data)["note"]
    assert "weak" not in drawn(tmp_path, objective)["note"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 32])  # the size of batches
def test_a_page_says_if_it_leaves_out_explained_examples(objective, tmp_path, size):
    few, all_seven = (
        drawn(tmp_path, objective, data=planted_data(eval_batch_size=size), num_documents=number) for number in (4, 7)
    )
    assert few["note"] == "Shown: the first 4 explained examples (num_documents of Heatmaps)."
    assert all_seven["note"] == ""


class Hostile(Planted):
    """Planted data whose first test text begins with an attack."""

    def __init__(self, attack, **sizes):
        super().__init__(**sizes)
        self.attack = attack

    def load(self):
        splits = super().load()
        splits["test"] = splits["test"].map(
            lambda row, number: {"text": self.attack * (number == 0) + row["text"]}, with_indices=True
        )
        return splits


def test_hostile_text_stays_text(objective, tmp_path):
    attack = "</script><img src=x onerror=alert(1)>"
    data = planted_data(source=Hostile(attack, num_classes=3, num_train=8, num_validation=6, num_test=7))
    data.source.class_names[0] = attack
    shown = drawn(tmp_path, objective, data=data)["documents"][0]
    assert "".join(shown["pieces"]).startswith(attack) and shown["classes"][0]["name"] == attack
    assert "<img" not in (tmp_path / "heatmaps" / "test.html").read_text()


def test_images_are_in_the_events(objective, tmp_path):
    logger = TensorBoardLogger(tmp_path, name="", version="")
    run = trainer(tmp_path, compute(Random(), targets="gold"), Heatmaps(num_documents=2), logger=logger)
    run.test(objective, datamodule=planted_data(), verbose=False)
    logger.finalize("success")
    events = EventAccumulator(str(tmp_path)).Reload()
    assert events.Tags()["images"] == ["heatmaps/test/0", "heatmaps/test/1"]
    picture = events.Images("heatmaps/test/0")[0]
    assert picture.encoded_image_string.startswith(b"\x89PNG") and picture.width == 1000


def test_images_of_the_validation_split_are_tagged_val(objective, tmp_path):
    logger = TensorBoardLogger(tmp_path, name="", version="")
    run = trainer(tmp_path, compute(Random()), Heatmaps(num_documents=1), logger=logger)
    run.validate(objective, datamodule=planted_data(), verbose=False)
    logger.finalize("success")
    assert EventAccumulator(str(tmp_path)).Reload().Tags()["images"] == ["heatmaps/val/0"]


def test_probabilities_shown_are_those_of_the_network(objective, tmp_path):
    data = planted_data()
    documents = drawn(tmp_path, objective, data=data)["documents"]
    batch = data.collate(data.split("test")[[0, 1, 2, 3]])
    probs = objective.network.predict(batch.inputs)
    shown = torch.tensor([[chosen["probability"] for chosen in document["classes"]] for document in documents])
    assert torch.allclose(shown, probs, atol=1e-4)


def test_long_documents_are_on_the_page_but_no_image(objective, tmp_path):
    logger = TensorBoardLogger(tmp_path, name="", version="")
    heatmaps = Heatmaps(num_documents=2, max_image_tokens=1)
    run = trainer(tmp_path, compute(Random(), targets="gold"), heatmaps, logger=logger)
    run.test(objective, datamodule=planted_data(), verbose=False)
    logger.finalize("success")
    assert EventAccumulator(str(tmp_path)).Reload().Tags()["images"] == []
    assert (tmp_path / "heatmaps" / "test.html").exists()


def test_heatmaps_before_the_attributions_are_refused(objective, tmp_path):
    with pytest.raises(ValueError, match="Heatmaps needs a ComputeAttributions before it"):
        trainer(tmp_path, Heatmaps(), compute(Random())).test(objective, datamodule=planted_data(), verbose=False)
