"""Networks come back from every kind of file with the same logits, and bad files are refused in one line."""

import json
import os

import pytest
import torch

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.models import huggingface
from lightning_xai.models.base import Classifier
from lightning_xai.models.checkpoints.checkpoint import checkpoint_hash, load_trained, read_checkpoint
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.runs.format import FORMAT
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier


def load_network(path: str) -> Classifier:
    return load_trained(path).network


def save_checkpoint(model, path, **changes):
    """Writes a checkpoint as objectives do, with entries added or replaced by `changes`."""
    checkpoint = {
        "format": FORMAT,
        "network": {
            "class_path": f"{type(model).__module__}.{type(model).__qualname__}",
            "init_args": model.architecture(),
        },
        "state_dict": {f"network.{key}": value for key, value in model.state_dict().items()}
        | {"decision_threshold": torch.tensor(0.25)},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint | changes, path)
    return str(path)


@pytest.mark.parametrize("kind", [*TINY_CONFIGS, "plm_ca"])
def test_checkpoint_gives_back_the_network(kind, tmp_path):
    embedding = "word" if kind == "llama" else "module"  # decoders have no embedding module
    model, inputs = tiny_classifier(kind, embedding=embedding), text_inputs([5, 9])
    loaded = load_network(save_checkpoint(model, tmp_path / "last.ckpt"))
    assert type(loaded) is type(model) and loaded.embedding == embedding and not loaded.training
    assert torch.equal(loaded(inputs).logits, model(inputs).logits)


@pytest.mark.parametrize("is_accepted", [True, False])
@pytest.mark.parametrize("kind", ["bert", "plm_ca"])
def test_network_that_is_loaded_under_autocast_computes_with_its_own_weights(kind, is_accepted, tmp_path, monkeypatch):
    path, inputs = save_checkpoint(tiny_classifier(kind), tmp_path / "last.ckpt"), text_inputs([5, 9])
    if not is_accepted:  # then its contracts are checked with random weights, before those of the file are copied
        monkeypatch.setattr(huggingface, "_accepted", set())
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        inside = load_network(path)(inputs).logits
    outside = load_network(path)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert torch.equal(inside, outside(inputs).logits)


def test_network_that_is_loaded_in_inference_mode_can_be_explained(tmp_path, monkeypatch):
    path, inputs = save_checkpoint(tiny_classifier("bert"), tmp_path / "last.ckpt"), text_inputs([5, 9])
    monkeypatch.setattr(huggingface, "_accepted", set())
    with torch.inference_mode():
        loaded = load_network(path)
    scores = Gradient().attribute(loaded, inputs, torch.tensor([[0], [1]])).scores
    assert torch.equal(scores, Gradient().attribute(load_network(path), inputs, torch.tensor([[0], [1]])).scores)


def test_checkpoint_of_a_loaded_network_can_be_written_and_read_again(tmp_path):
    model, inputs = tiny_classifier("plm_ca"), text_inputs([5, 19])
    once = load_network(save_checkpoint(model, tmp_path / "once.ckpt"))
    twice = load_network(save_checkpoint(once, tmp_path / "twice.ckpt"))
    assert torch.equal(twice(inputs).logits, model(inputs).logits)


def test_checkpoint_of_a_finetuned_folder_needs_the_folder_no_more(tmp_path):
    source = tiny_classifier("bert", config=TINY_CONFIGS["bert"] | {"hidden_dropout_prob": 0.3})
    source.transformer.save_pretrained(tmp_path / "folder")
    model = load_network(str(tmp_path / "folder"))
    path = save_checkpoint(model, tmp_path / "last.ckpt")
    (tmp_path / "folder").rename(tmp_path / "gone")
    loaded = load_network(path)
    assert isinstance(loaded, HFClassifier) and loaded.transformer.config.hidden_dropout_prob == 0.3
    assert torch.equal(loaded(text_inputs([5])).logits, source(text_inputs([5])).logits)


def test_run_folder_gives_the_best_checkpoint_before_the_last(tmp_path):
    best, last = tiny_classifier("bert", seed=1), tiny_classifier("bert", seed=2)
    save_checkpoint(last, tmp_path / "checkpoints" / "last.ckpt")
    assert torch.equal(load_network(str(tmp_path)).embedding_matrix, last.embedding_matrix)
    save_checkpoint(best, tmp_path / "checkpoints" / "best.ckpt")
    assert torch.equal(load_network(str(tmp_path)).embedding_matrix, best.embedding_matrix)


@pytest.mark.parametrize("manifest", ['{"status": "finished"}', '{"sta', '{"format": 99}'])
def test_run_folder_is_loaded_even_if_its_manifest_is_old_damaged_or_newer(manifest, tmp_path, capsys):
    save_checkpoint(tiny_classifier("bert"), tmp_path / "checkpoints" / "best.ckpt")
    (tmp_path / "manifest.json").write_text(manifest)
    load_trained(str(tmp_path))
    assert capsys.readouterr().out == ""


def test_hugging_face_folder_keeps_its_head_and_classes(tmp_path):
    model, inputs = tiny_classifier("roberta"), text_inputs([5, 9])
    model.transformer.config.id2label = {0: "bad", 1: "fair", 2: "good"}
    model.transformer.save_pretrained(tmp_path)
    loaded = load_network(str(tmp_path))
    assert loaded.num_classes == 3 and not loaded.multilabel
    assert torch.equal(loaded(inputs).logits, model(inputs).logits)
    assert load_trained(str(tmp_path)).class_names == ["bad", "fair", "good"]


def test_hugging_face_folder_says_whether_it_is_multilabel(tmp_path):
    model = tiny_classifier("roberta")
    model.transformer.config.problem_type = "multi_label_classification"
    model.transformer.save_pretrained(tmp_path)
    assert load_network(str(tmp_path)).multilabel


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def test_pickled_code_is_refused_and_never_runs(tmp_path):
    marker = tmp_path / "ran"
    path = save_checkpoint(tiny_classifier("bert"), tmp_path / "x.ckpt", epoch=Attack(str(marker)))
    with pytest.raises(
        ValueError, match="x.ckpt is not loaded: it holds the Python object posix.mkdir, which could run"
    ):
        load_network(path)
    assert not marker.exists()


def test_weights_of_another_shape_are_named_with_both_shapes(tmp_path):
    model = tiny_classifier("bert")
    path = save_checkpoint(model, tmp_path / "x.ckpt")
    checkpoint = read_checkpoint(path)
    checkpoint["state_dict"]["network.transformer.classifier.weight"] = torch.zeros(7, 16)
    torch.save(checkpoint, path)
    with pytest.raises(
        ValueError, match=r"transformer\.classifier\.weight has shape \[7, 16\].*needs \[3, 16\]"
    ) as error:
        load_network(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("network.transformer.classifier.bias"), "no weights transformer.classifier.bias"),
        (lambda state: state.update({"network.extra": torch.zeros(1)}), "unknown weights extra"),
    ],
)
def test_missing_and_unknown_weights_are_named(tmp_path, change, message):
    path = save_checkpoint(tiny_classifier("bert"), tmp_path / "x.ckpt")
    checkpoint = read_checkpoint(path)
    change(checkpoint["state_dict"])
    torch.save(checkpoint, path)
    with pytest.raises(ValueError, match=message):
        load_network(path)


def test_weights_of_a_compiled_network_are_understood(tmp_path):
    model = tiny_classifier("bert")
    state = {f"network._orig_mod.{key}": value for key, value in model.state_dict().items()}
    path = save_checkpoint(model, tmp_path / "x.ckpt", state_dict=state)
    assert torch.equal(load_network(path).embedding_matrix, model.embedding_matrix)


def test_loading_leaves_the_random_state(tmp_path):
    path = save_checkpoint(tiny_classifier("plm_ca"), tmp_path / "x.ckpt")
    before = torch.get_rng_state()
    load_network(path)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["nothing", "nothing.ckpt", "no/such-model"])
def test_path_to_nothing_is_refused_in_one_line(name, tmp_path):
    with pytest.raises(ValueError, match="nothing|no/such-model") as error:
        load_network(name if name.startswith("no/") else str(tmp_path / name))
    assert "\n" not in str(error.value)


def test_hugging_face_folder_without_a_head_is_refused(tmp_path):
    tiny_classifier("bert").transformer.base_model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no classification head"):
        load_network(str(tmp_path))


def test_checkpoint_of_another_program_is_refused(tmp_path):
    torch.save({"state_dict": {}}, tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match="lacks a description of the network"):
        load_network(str(tmp_path / "x.ckpt"))


def test_file_that_is_no_checkpoint_is_refused(tmp_path):
    (tmp_path / "x.ckpt").write_text("hello")
    with pytest.raises(ValueError, match="holds more than tensors"):
        load_network(str(tmp_path / "x.ckpt"))


def test_decision_threshold_is_the_stored_one_or_one_half(tmp_path):
    model = tiny_classifier("bert")
    assert load_trained(save_checkpoint(model, tmp_path / "x.ckpt")).decision_threshold == 0.25
    model.transformer.save_pretrained(tmp_path / "folder")
    assert load_trained(str(tmp_path / "folder")).decision_threshold == 0.5


def test_hash_follows_the_weights(tmp_path):
    model = tiny_classifier("bert")
    path = save_checkpoint(model, tmp_path / "checkpoints" / "best.ckpt")
    model.transformer.save_pretrained(tmp_path / "folder")
    before = checkpoint_hash(path), checkpoint_hash(str(tmp_path / "folder"))
    assert len(before[0]) == 12 and int(before[0], 16) >= 0
    assert checkpoint_hash(str(tmp_path)) == before[0]
    retrained = tiny_classifier("bert", seed=9)
    save_checkpoint(retrained, tmp_path / "checkpoints" / "best.ckpt")
    retrained.transformer.save_pretrained(tmp_path / "folder")
    assert checkpoint_hash(path) != before[0] and checkpoint_hash(str(tmp_path / "folder")) != before[1]


@pytest.mark.parametrize(
    ("id2label", "ids"), [({1: "a", 2: "b", 3: "c"}, "1, 2, 3"), ({0: "a", 2: "b", 3: "c"}, "0, 2, 3"), ({5: "a"}, "5")]
)
def test_names_of_classes_that_do_not_count_from_0_are_refused(id2label, ids, tmp_path):
    tiny_classifier("bert").transformer.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": id2label}))
    with pytest.raises(
        ValueError, match=f"^{tmp_path}: id2label has the ids {ids}: number the classes from 0"
    ) as error:
        load_trained(str(tmp_path))
    assert "\n" not in str(error.value)


def test_folder_of_an_experiment_is_refused_with_the_name_of_a_run(tmp_path):
    for seed in (1, 3):
        (tmp_path / "tm" / f"seed{seed}").mkdir(parents=True)
    (tmp_path / "tm" / "seed3" / "config.yaml").touch()
    with pytest.raises(ValueError, match="tm is an experiment: give one of its runs, such as .*seed3"):
        load_network(str(tmp_path / "tm"))
