"""A run from before files had a format number is explained, evaluated and used as a teacher, but not continued."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.models.checkpoints.checkpoint import check_format, load_trained, read_checkpoint
from lightning_xai.models.checkpoints.loading import build_network
from lightning_xai.objectives.evaluation import Evaluation
from lightning_xai.objectives.supervised import Supervised
from lightning_xai.objectives.token_masking import TokenMasking
from lightning_xai.runs.class_paths import imported_class
from lightning_xai.runs.renamed_classes import current_spec
from tests.commands.conftest import command
from tests.objectives.conftest import quiet_trainer

RUN = Path(__file__).parents[1] / "models" / "before_format_2"
CHECKPOINT = str(RUN / "checkpoints" / "best.ckpt")


@pytest.fixture
def data() -> TextDataModule:
    """The data of the old run, whose vocabulary was learned from its training texts."""
    source = Planted(num_words=18, num_train=8, num_validation=4, num_test=4, words_per_document=(3, 6))
    return TextDataModule(source, VocabularyEncoder(words=None, max_length=12), batch_size=8)


def specs_in(value: Any) -> list[dict[str, Any]]:
    """Returns every mapping with a class path inside settings."""
    if not isinstance(value, dict):
        return []
    inside = [spec for part in value.values() for spec in specs_in(part)]
    return [*([value] if "class_path" in value else []), *inside]


def imported(spec: dict[str, Any]) -> type[Any]:
    return imported_class(current_spec(spec)["class_path"], object)


def test_the_checkpoint_has_no_format_number():
    assert "format" not in read_checkpoint(CHECKPOINT)


def test_every_class_that_its_files_name_is_found_under_that_name_or_in_the_table_of_renamed_classes():
    settings = yaml.safe_load((RUN / "config.yaml").read_text())
    specs = [*specs_in(settings), *specs_in(read_checkpoint(CHECKPOINT)["network"])]
    names = {current_spec(spec)["class_path"].rpartition(".")[2]: imported(spec).__name__ for spec in specs}
    assert {"HFClassifier", "Planted", "Supervised", "TextDataModule", "VocabularyEncoder"} <= names.keys()
    assert all(name == class_name for name, class_name in names.items())


def test_explain_prints_the_numbers_of_then(tmp_path):
    before = [json.loads(line) for line in (RUN / "explained.jsonl").read_text().splitlines()]
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{record['text']}\n" for record in before))
    command("explain", "--ckpt", RUN, "--file", file, "--method", "InputXGradient", "--method.pooling", "l2")
    now = [json.loads(line) for line in (tmp_path / "lines.txt.jsonl").read_text().splitlines()]
    for expected, actual in zip(before, now, strict=True):
        (expected_class,), (actual_class,) = expected.pop("classes"), actual.pop("classes")
        assert actual.pop("num_unknown_tokens") == actual["text"].count("zebra")  # a number that records had not then
        assert actual.pop("truncated") is False  # nor had they this
        assert actual == expected and actual_class["name"] == expected_class["name"]
        assert actual_class["probability"] == pytest.approx(expected_class["probability"], abs=1e-6)
        scores = expected_class["scores"]["InputXGradient"]
        assert actual_class["scores"]["InputXGradient"] == pytest.approx(scores, rel=1e-4)


def test_its_vocabulary_is_known():
    words = (load_trained(CHECKPOINT).encoder or {})["learned"]["words"]
    assert len(words) == 17 and set(words) <= {f"w{number}" for number in range(18)}


def test_evaluation_measures_the_numbers_of_then(data, tmp_path):
    trainer = quiet_trainer(tmp_path)
    trainer.test(Evaluation(str(RUN)), data, verbose=False)
    assert float(trainer.logged_metrics["test/log_loss"]) == pytest.approx(0.6934219598770142, abs=1e-6)
    assert float(trainer.logged_metrics["test/accuracy"]) == 0.5


def test_it_teaches(data, tmp_path):
    student = build_network(read_checkpoint(CHECKPOINT)["network"])
    quiet_trainer(tmp_path, max_steps=0).fit(TokenMasking(student, CHECKPOINT), data)
    teacher = load_trained(CHECKPOINT).network
    assert all(torch.equal(teacher.state_dict()[name], value) for name, value in student.state_dict().items())


def test_beside_its_student_it_is_refused_with_the_argument_that_makes_it_teach(data, tmp_path):
    beside = shutil.copytree(RUN, tmp_path / "tm_teacher" / "seed0")
    network = read_checkpoint(CHECKPOINT)["network"]
    trainer = quiet_trainer(tmp_path / "tm" / "seed0", max_steps=0)
    with pytest.raises(ValueError, match=f"add --model.init_args.teacher {beside} to use its checkpoint, or choose"):
        TokenMasking(build_network(network), "teacher.yaml").runs_before(trainer, data)
    student = TokenMasking(build_network(network), str(beside))
    assert student.runs_before(trainer, data) == []
    trainer.fit(student, data)


def test_it_is_refused_for_resuming(data, tmp_path):
    objective = Supervised(build_network(read_checkpoint(CHECKPOINT)["network"]))
    with pytest.raises(ValueError, match="has format 1, but only checkpoints of format 2 can be resumed or") as error:
        quiet_trainer(tmp_path, max_steps=2).fit(objective, data, ckpt_path=CHECKPOINT)
    assert "\n" not in str(error.value)


def test_a_checkpoint_of_a_newer_format_is_refused(tmp_path):
    newer = str(shutil.copy(CHECKPOINT, tmp_path / "newer.ckpt"))
    torch.save(read_checkpoint(CHECKPOINT) | {"format": 99}, newer)
    with pytest.raises(ValueError, match="has format 99, .* update the package"):
        load_trained(newer)


def test_only_the_current_format_continues():
    check_format({"format": 2})
    with pytest.raises(ValueError, match="m.ckpt has format 1"):
        check_format({}, "m.ckpt")
