"""ROAR: its runs, the erasures that each run stores for the next, and the chains that it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import DatasetDict

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.attributions.rollout import AttentionRollout
from lightning_xai.chains.roar import ROAR
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.format import with_format
from lightning_xai.runs.stores.store import RaggedStore
from tests.callbacks.conftest import planted_data, trainer

SPLITS = {"train": 8, "validation": 6, "test": 7}
SIZES: dict[str, Any] = {"num_classes": 3, "num_train": 8, "num_validation": 6, "num_test": 7}


class PlantedWithoutEvidence(Planted):
    def load(self):
        return super().load().remove_columns("rationales")


class PlantedPairs(Planted):
    def load(self):
        splits = super().load()
        return DatasetDict({name: rows.add_column("text_pair", ["w1"] * len(rows)) for name, rows in splits.items()})


def finish(run: Path, **facts) -> None:
    run.mkdir(parents=True, exist_ok=True)
    (run / "manifest.json").write_text(json.dumps(with_format({"status": "finished", **facts})))


def run_stage(folder: Path, objective, callback: ROAR, **data) -> None:
    """Trains for an epoch and tests, as the command does for one stage."""
    fit = trainer(folder, callback, max_epochs=1, enable_checkpointing=False)
    module = planted_data(eval_batch_size=3, **data)
    fit.fit(objective, datamodule=module)
    fit.test(objective, datamodule=module, verbose=False)
    finish(folder)


def stored(root: Path, name: str, split: str = "test") -> list[list[int]]:
    """Returns the erased positions of each example."""
    store = RaggedStore(root / "erasures" / name / split)
    return [store.get(index, 0).nonzero()[0].tolist() for index, _ in store.keys()]


def erased_alone(network, module, split: str, amount: int, before: list[list[int]]) -> list[list[int]]:
    """Returns the erased positions of each example, computed one example at a time and sorted in Python."""
    found = []
    for position, item in enumerate(module.split(split)[list(range(len(module.split(split))))]):
        batch = module.collate([item])
        scores = Gradient().attribute(network, batch.inputs, batch.labels.unsqueeze(1)).scores[0, 0].tolist()
        free = [t for t in batch.inputs.token_mask[0].nonzero().flatten().tolist() if t not in before[position]]
        num_tokens = int(batch.inputs.token_mask.sum())
        more = amount * num_tokens // 100 - len(before[position])
        found.append(sorted(before[position] + sorted(free, key=lambda t: -scores[t])[:more]))
    return found


def test_paper_sized_chain_has_a_run_for_every_percentage_and_shares_the_ends():
    stages = ROAR({name: Gradient() for name in ("gradient", "input_x_gradient", "ig")}).stages
    assert len(stages) == 2 + 4 * 9
    assert [stage.name for stage in stages[:3]] == ["", "all/100", "random/010"]
    assert stages[-1].name == "ig/090"


def test_control_trains_on_the_positions_of_the_same_erasures():
    stage = ROAR({"gradient": Gradient()}, percentages=(50,), control=True).stages[-1]
    assert (stage.name, stage.erasures) == ("gradient_positions/050", "gradient/050")
    assert stage.removal == "positions"


def test_one_token_steps_have_no_run_at_100_percent():
    names = [stage.name for stage in ROAR({"gradient": Gradient()}, amount_unit="token", max_tokens=2).stages]
    assert names == ["", "random/001", "random/002", "gradient/001", "gradient/002"]


@pytest.mark.parametrize("unit", ["percentage", "token"])
def test_erasures_say_the_unit_of_their_amount(unit):
    roar = ROAR({"gradient": Gradient()}, percentages=(1,), amount_unit=unit, max_tokens=1)
    facts = roar.erasures_by(roar.stages[0])["gradient/001"]
    assert facts == {"method": "gradient", "amount": 1, "amount_unit": unit, "run": ""}


def test_recursive_stage_erases_for_the_next_one_only():
    roar = ROAR({"gradient": Gradient()}, percentages=(20, 50, 80))
    named = {stage.name: list(roar.erasures_by(stage)) for stage in roar.stages}
    assert named[""] == ["all/100", "random/020", "random/050", "random/080", "gradient/020"]
    assert named["gradient/020"] == ["gradient/050"]
    assert named["gradient/080"] == named["random/020"] == named["all/100"] == []


@pytest.mark.slow
def test_a_method_may_be_recursive_and_not_in_one_chain(tmp_path, objective):
    root = tmp_path / "roar" / "seed0"
    roar = ROAR({"gradient": Gradient()}, percentages=(30, 60), recursive="both")
    assert [stage.name for stage in roar.stages[4:]] == [
        "gradient/030", "gradient/060", "gradient_once/030", "gradient_once/060"
    ]  # fmt: skip
    run_stage(root, objective, roar)
    assert stored(root, "gradient/030") == stored(root, "gradient_once/030")
    assert all(map(set.issubset, map(set, stored(root, "gradient/030")), map(set, stored(root, "gradient_once/060"))))
    assert not (root / "erasures" / "gradient" / "060").exists()
    assert list(roar.erasures_by(roar.stages[4])) == ["gradient/060"]


@pytest.mark.parametrize(
    "options",
    [{}, {"recursive": False}, {"recursive": "both"}, {"control": True}, {"amount_unit": "token", "max_tokens": 3}],
)
def test_stage_names_the_run_that_writes_its_erasures(options):
    roar = ROAR({"gradient": Gradient()}, **{"percentages": (20, 50, 80), **options})
    writers = {name: stage.name for stage in roar.stages for name in roar.erasures_by(stage)}
    assert {stage.erasures: stage.writer for stage in roar.stages[1:]} == writers


def test_plain_roar_erases_everything_from_the_root():
    roar = ROAR({"gradient": Gradient()}, percentages=(20, 50), recursive=False)
    first, *others = roar.stages
    assert [name for name in roar.erasures_by(first) if name.startswith("gradient")] == ["gradient/020", "gradient/050"]
    assert not any(roar.erasures_by(stage) for stage in others)


@pytest.mark.slow
def test_erasures_are_those_of_a_twin_and_recursive(tmp_path, objective):
    root = tmp_path / "roar" / "seed0"
    run_stage(root, objective, ROAR({"gradient": Gradient()}, percentages=(30, 60)))
    for split, size in SPLITS.items():
        none: list[list[int]] = [[]] * size
        assert stored(root, "gradient/030", split) == erased_alone(objective.network, planted_data(), split, 30, none)

    erasures: dict[str, Any] = {"erasures": str(root / "erasures" / "gradient" / "030")}
    run_stage(
        tmp_path / "roar/gradient/030/seed0",
        objective,
        ROAR({"gradient": Gradient()}, percentages=(30, 60)),
        **erasures,
    )
    for split in SPLITS:
        before = stored(root, "gradient/030", split)
        wanted = erased_alone(objective.network, planted_data(**erasures), split, 60, before)
        assert stored(root, "gradient/060", split) == wanted


@pytest.mark.slow
def test_bounds_erase_the_annotated_evidence_first_and_last(tmp_path, objective):
    root = tmp_path / "roar" / "seed0"
    roar = ROAR({"gradient": Gradient()}, percentages=(30, 60), bounds=True)
    assert [s.name for s in roar.stages if s.name.startswith("evidence") and s.writer] == []  # no network orders them
    run_stage(root, objective, roar)
    split = planted_data().split("test")
    for place, (encoded, label) in enumerate(
        (encoded, split.examples[i]["labels"]) for i, encoded in enumerate(split.encoded)
    ):
        evidence = set(encoded.rationales[label].nonzero()[0].tolist())
        others = set(encoded.token_mask.nonzero()[0].tolist()) - evidence
        for name, first in (("evidence_first", evidence), ("evidence_last", others)):
            smaller, larger = (set(stored(root, f"{name}/{amount}")[place]) for amount in ("030", "060"))
            assert smaller <= larger
            assert all(erased <= first or first <= erased for erased in (smaller, larger))


def test_bounds_without_annotated_evidence_are_refused(tmp_path, objective):
    data = planted_data(source=PlantedWithoutEvidence(**SIZES))
    fit = trainer(tmp_path, ROAR({"gradient": Gradient()}, bounds=True), max_epochs=1, enable_checkpointing=False)
    with pytest.raises(ValueError, match="bounds is true, but Planted.* has no annotated evidence"):
        fit.fit(objective, datamodule=data)


@pytest.mark.parametrize(
    ("encoder", "options", "message"),
    [
        ({"fill": "unk", "explain_pair": False}, {"control": True}, "needs an unknown token other than the fill token"),
        ({"explain_pair": True}, {}, "explain_pair is true, but ROAR erases only the main text of a pair"),
    ],
)
def test_encoder_that_suits_no_chain_is_refused_before_the_first_run(tmp_path, objective, encoder, options, message):
    data = TextDataModule(PlantedPairs(**SIZES), VocabularyEncoder(words=95, max_length=32, **encoder))
    fit = trainer(tmp_path, ROAR({"gradient": Gradient()}, **options), max_epochs=1, enable_checkpointing=False)
    with pytest.raises(ValueError, match=message):
        fit.fit(objective, datamodule=data)


def test_all_tokens_are_erased_at_100_percent(tmp_path, objective):
    root = tmp_path / "roar" / "seed0"
    run_stage(root, objective, ROAR({"gradient": Gradient()}, percentages=(50,)))
    wanted = [encoded.token_mask.nonzero()[0].tolist() for encoded in planted_data().split("test").encoded]
    assert stored(root, "all/100") == wanted


@pytest.mark.slow
def test_random_erasures_are_nested_and_of_the_exact_size(tmp_path, objective):
    root = tmp_path / "roar" / "seed0"
    run_stage(root, objective, ROAR({"gradient": Gradient()}, percentages=(30, 60)))
    lengths = [int(encoded.token_mask.sum()) for encoded in planted_data().split("test").encoded]
    small, large = stored(root, "random/030"), stored(root, "random/060")
    assert [len(row) for row in small] == [30 * n // 100 for n in lengths]
    assert [len(row) for row in large] == [60 * n // 100 for n in lengths]
    assert all(set(a) <= set(b) for a, b in zip(small, large, strict=True))


@pytest.mark.slow
def test_random_erasures_do_not_depend_on_the_batches(tmp_path, objective):
    for name, size in (("a", 1), ("b", 7)):
        callback = ROAR({"gradient": Gradient()}, percentages=(50,))
        fit = trainer(tmp_path / name / "seed0", callback, max_epochs=0, enable_checkpointing=False)
        module = planted_data(eval_batch_size=size)
        fit.fit(objective, datamodule=module)
        fit.test(objective, datamodule=module, verbose=False)
    assert stored(tmp_path / "a/seed0", "random/050") == stored(tmp_path / "b/seed0", "random/050")


@pytest.mark.slow
def test_pass_cut_off_by_a_kill_goes_on_to_the_same_erasures(tmp_path, objective):
    root = tmp_path / "roar" / "seed0"
    callback = ROAR({"gradient": Gradient()}, percentages=(30,))
    run_stage(root, objective, callback)
    wanted = {split: stored(root, "gradient/030", split) for split in SPLITS}
    folder = root / "erasures" / "gradient" / "030"
    (folder / "complete.json").unlink()
    (folder / "test" / "0.rows").unlink()
    rows = folder / "validation" / "0.rows"
    rows.write_bytes(rows.read_bytes()[:-45])  # one row and a part of another are lost
    trainer(root, callback).test(objective, datamodule=planted_data(eval_batch_size=3), verbose=False)
    assert {split: stored(root, "gradient/030", split) for split in SPLITS} == wanted
    assert (folder / "complete.json").exists()


@pytest.mark.slow
def test_later_test_of_another_network_leaves_the_erasures(tmp_path, objective):
    root = tmp_path / "roar" / "seed0"
    run_stage(root, objective, ROAR({"gradient": Gradient()}, percentages=(30,)))
    wanted = stored(root, "gradient/030")
    with torch.no_grad():
        objective.network.embedding_matrix.normal_()
    again = ROAR({"gradient": Gradient()}, percentages=(30,))
    trainer(root, again).test(objective, datamodule=planted_data(), verbose=False)
    assert stored(root, "gradient/030") == wanted


@pytest.mark.slow
def test_erasures_of_other_weights_are_refused(tmp_path, objective):
    root = tmp_path / "roar" / "seed0"
    callback = ROAR({"gradient": Gradient()}, percentages=(30,))
    run_stage(root, objective, callback)
    with torch.no_grad():
        objective.network.embedding_matrix.normal_()
    with pytest.raises(ValueError, match="was written by another run .* remove this folder and repeat the command"):
        trainer(root, callback).test(objective, datamodule=planted_data(), verbose=False)


@pytest.mark.slow
def test_attention_runs_eagerly_only_while_a_method_needs_it(tmp_path, objective):
    objective.network.set_attention("sdpa")
    run_stage(tmp_path / "roar/seed0", objective, ROAR({"rollout": AttentionRollout()}, percentages=(50,)))
    assert objective.network.attention_implementation == "sdpa"
    assert any(stored(tmp_path / "roar/seed0", "rollout/050"))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"methods": {}}, "give one or more"),
        ({"methods": {"random": Gradient()}}, "not seed<number> or random, evidence_first, evidence_last, all, report"),
        ({"methods": {"ig_positions": Gradient()}}, "names that do not end in _positions or _once"),
        ({"methods": {"..": Gradient()}}, "letters, digits, spaces"),
        ({"methods": {"seed1": Gradient()}}, "not seed"),
        ({"methods": {"a/b": Gradient()}}, "letters, digits, spaces"),
        ({"percentages": (50, 20)}, "ascending integers from 1 to 99"),
        ({"percentages": (10, 100)}, "ascending integers from 1 to 99"),
        ({"percentages": ()}, "ascending integers from 1 to 99"),
        ({"amount_unit": "token", "max_tokens": 0}, "max_tokens is 0"),
        ({"amount_unit": "word"}, "amount_unit is 'word'"),
        ({"metric": "f1"}, "metric is 'f1'"),
    ],
)
def test_chain_that_cannot_run_is_refused_at_construction(options, message):
    with pytest.raises(ValueError, match=message):
        ROAR(**{"methods": {"gradient": Gradient()}} | options)


def test_root_is_not_run_with_the_configuration_of_a_later_stage(tmp_path):
    root, later = (RunFolder(tmp_path / name / "seed0") for name in ("roar", "roar/gradient/030"))
    finish(root.path)
    roar = ROAR({"gradient": Gradient()}, percentages=(30,))
    message = f"is not the root, the first stage of its chain: to run the root, give --config {root.config_file}"
    with pytest.raises(ValueError, match=message):
        roar.overrides("root", later)
    assert roar.overrides("root", root) == ["--stage=null", "--follow_up=false"]
