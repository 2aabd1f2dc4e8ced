"""The erasures that the runs of a chain train on, and the runs that a chain refuses."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lightning_xai.chains.stages import Chain, Stage
from lightning_xai.data.module import TextDataModule
from lightning_xai.runs.folder import RunFolder
from lightning_xai.runs.format import with_format
from tests.callbacks.conftest import planted_data

FIRST, SECOND = STAGES = [
    Stage("", "root", "root"),
    Stage("gradient/030", "gradient, 30 %", "gradient", erasures="gradient/030"),
]
FACTS = {"method": "gradient", "percentage": 30, "weights": "a"}


def save(file: Path, facts: dict) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(with_format(facts)))


@pytest.fixture
def chain(tmp_path) -> Chain:
    """A chain of two finished runs."""
    chain = Chain(RunFolder(tmp_path / "runs" / "roar" / "seed0"), STAGES)
    settings = {"experiment": "roar", "lr": 1, "data.init_args.erasures": None}
    save(chain.root.manifest_file, {"status": "finished", "settings": settings})
    erased = {"experiment": "roar/gradient/030", "data.init_args.erasures": "x", "data.init_args.erasure": "mask"}
    save(chain.run(SECOND).manifest_file, {"status": "finished", "settings": settings | erased})
    save(chain.erasures("gradient/030") / "complete.json", FACTS)
    save(chain.run(SECOND).trained_on_file, FACTS)
    return chain


def stage_data(chain: Chain, **arguments: Any) -> TextDataModule:
    """Returns the data of the second run, with arguments replaced."""
    return planted_data(**({"erasures": str(chain.erasures("gradient/030"))} | arguments))


def begun(chain: Chain) -> Chain:
    """Turns the second run into one that was killed while it trained."""
    save(chain.run(SECOND).manifest_file, {"status": "running"})
    save(chain.run(SECOND).checkpoints_dir / "last.ckpt", {})
    return chain


def test_finished_chain_is_accepted(chain):
    chain.check_finished()


def test_finished_run_on_erasures_of_an_earlier_root_is_refused(chain):
    save(chain.erasures("gradient/030") / "complete.json", FACTS | {"weights": "b"})
    with pytest.raises(ValueError, match="030/seed0 trained on other erasures .* remove that run"):
        chain.check_finished()


def test_finished_run_that_says_nothing_of_its_erasures_is_refused(chain):
    (chain.run(SECOND).trained_on_file).unlink()
    with pytest.raises(ValueError, match="trained on other erasures \\(None\\)"):
        chain.check_finished()


def test_erasures_removed_after_the_end_are_not_missed(chain):
    (chain.erasures("gradient/030") / "complete.json").unlink()
    chain.check_finished()


def test_finished_run_with_other_settings_than_the_root_is_refused(chain):
    save(chain.root.manifest_file, {"status": "finished", "settings": {"lr": 2}})
    with pytest.raises(ValueError, match="have different settings \\(lr is 2 and 1\\)"):
        chain.check_finished()


def test_run_with_a_configuration_of_its_own_may_have_other_settings(chain):
    own = Chain(chain.root, [FIRST, Stage(**vars(SECOND) | {"config": "classifier.yaml"})])
    save(chain.root.manifest_file, {"status": "finished", "settings": {"lr": 2}})
    own.check_finished()


def test_runs_with_one_configuration_of_their_own_have_the_same_settings(chain):
    first, second = (
        Stage(name, name, "classifier", erasures="gradient/030", config="classifier.yaml")
        for name in ("gradient/030", "random")
    )
    own = Chain(chain.root, [FIRST, first, second])
    save(own.run(second).manifest_file, {"status": "finished", "settings": {"lr": 2}})
    with pytest.raises(ValueError, match="030/seed0 and .*random/seed0 have different settings \\(lr is 1 and 2\\)"):
        own.check_finished()


def test_run_without_its_erasures_is_told_how_to_get_them(chain):
    with pytest.raises(ValueError, match="add --data.init_args.erasures=.*030 --data.init_args.erasure=mask"):
        chain.begin(SECOND, stage_data(chain, erasures=None))


def test_run_with_another_kind_of_erasure_is_refused(chain):
    with pytest.raises(ValueError, match="and erasure=positions: add"):
        chain.begin(SECOND, stage_data(chain, erasure="positions"))


def test_run_whose_erasures_are_missing_names_the_run_before_it(chain):
    (chain.erasures("gradient/030") / "complete.json").unlink()
    with pytest.raises(ValueError, match=f"missing or unfinished: run {chain.root.path} first"):
        chain.begin(SECOND, stage_data(chain))


def test_root_that_missed_its_bounds_begins_no_chain(chain):
    (chain.erasures("gradient/030") / "complete.json").unlink()
    facts = json.loads(chain.root.manifest_file.read_text())
    save(chain.root.manifest_file, facts | {"bound_met": False})
    with pytest.raises(ValueError, match=f"no epoch of {chain.root.path} met its bounds.* looser bounds"):
        chain.overrides(SECOND)


def test_root_awaits_the_erasures_that_unfinished_stages_need(chain):
    (chain.erasures("gradient/030") / "complete.json").unlink()
    assert begun(chain).awaits(FIRST) and not chain.awaits(SECOND)
    save(chain.erasures("gradient/030") / "complete.json", FACTS)
    assert not chain.awaits(FIRST)


def test_killed_run_goes_on_with_the_erasures_that_it_began_with(chain):
    begun(chain).begin(SECOND, stage_data(chain))
    save(chain.erasures("gradient/030") / "complete.json", FACTS | {"weights": "b"})
    with pytest.raises(ValueError, match="trained on other erasures"):
        chain.begin(SECOND, stage_data(chain))


def test_run_writes_down_what_it_trains_on(chain):
    save(chain.run(SECOND).manifest_file, {"status": "running"})
    (chain.run(SECOND).trained_on_file).unlink()
    chain.begin(SECOND, stage_data(chain))
    assert json.loads(chain.run(SECOND).trained_on_file.read_text()) == with_format(FACTS)


def test_erasures_in_the_first_run_are_refused(chain):
    with pytest.raises(ValueError, match="begins a chain, so no tokens of its data may be erased"):
        chain.begin(FIRST, stage_data(chain))


def test_command_of_a_stage_starts_from_no_checkpoint(chain):
    folder = chain.root.path.parents[1]
    assert chain.overrides(SECOND) == [
        "--experiment=roar/gradient/030",
        f"--runs_dir={folder}",
        "--ckpt_path=null",
        f"--data.init_args.erasures={chain.erasures('gradient/030')}",
        "--data.init_args.erasure=mask",
    ]


def test_stage_of_a_chain_whose_root_has_not_begun_is_refused(chain):
    chain.root.manifest_file.unlink()
    with pytest.raises(ValueError, match="the chain has not begun: run --stage root first"):
        chain.overrides(SECOND)


def test_stage_is_recognized_by_its_folder(tmp_path):
    stages = [Stage("", "root", "root"), Stage("gradient/030", "gradient, 30 %", "gradient")]
    save(tmp_path / "mine" / "seed4" / "manifest.json", {"status": "finished"})
    chain, stage = Chain.of_run(tmp_path / "mine" / "gradient" / "030" / "seed4", stages)
    assert chain.root.path == tmp_path / "mine" / "seed4" and stage is stages[1]
    assert Chain.of_run(chain.root.path, stages)[1] is stages[0]


def test_time_left_comes_from_finished_runs_of_the_same_kind(tmp_path):
    stages = [Stage("", "root", "root"), *(Stage(f"{m}/{k}", f"{m}, {k} %", m) for m in "ab" for k in (10, 20, 30))]
    chain = Chain(RunFolder(tmp_path / "roar" / "seed0"), stages)
    assert chain.progress(stages[0], "ROAR") == "ROAR stage 1 of 7: root"
    save(chain.root.manifest_file, {"status": "finished", "seconds": 600})
    save(chain.run(stages[1]).manifest_file, {"status": "finished", "seconds": 60})
    # two more runs of a take 60 s each, three of b the median of all finished runs, 330 s
    assert chain.minutes_left() == pytest.approx((2 * 60 + 3 * 330) / 60)
    assert chain.progress(stages[2], "ROAR") == "ROAR stage 3 of 7: a, 20 %, about 18 min left"


def test_run_of_another_experiment_with_the_name_of_a_stage_is_a_root(tmp_path):
    run = tmp_path / "mine" / "gradient" / "030" / "seed4"  # no mine/seed4 has begun
    chain, stage = Chain.of_run(run, STAGES)
    assert chain.root.path == run and stage is FIRST


def test_stage_is_found_by_its_name(chain):
    assert chain.stage("gradient/030") is SECOND
    assert chain.stage("root") is FIRST


def test_unknown_stage_is_named_with_those_there_are(chain):
    with pytest.raises(ValueError, match="no stage 'gradient/040': choose one of root, gradient/030"):
        chain.stage("gradient/040")


def test_erasures_of_an_older_format_are_refused(chain):
    (chain.erasures("gradient/030") / "complete.json").write_text(json.dumps(FACTS))
    with pytest.raises(ValueError, match="gradient/030 has format 1, but this version reads format 2"):
        chain.check_finished()


def test_finished_run_of_an_older_format_is_refused(chain):
    chain.run(SECOND).manifest_file.write_text(json.dumps({"status": "finished"}))
    with pytest.raises(ValueError, match="030/seed0 has format 1, but this version reads format 2"):
        chain.unfinished()


def evaluated(chain: Chain, stage: Stage, **settings: Any) -> None:
    """Gives the run of a stage these settings, and results that were made with them."""
    run = chain.run(stage)
    run.write_manifest(settings=(run.settings or {}) | settings)
    run.results_table.write(pd.DataFrame({"checkpoint": ["a"]}), run.settings or {})


BATCHES = "trainer.limit_test_batches"


def test_stage_with_another_evaluation_than_the_root_is_unfinished(chain):
    evaluated(chain, FIRST, **{BATCHES: 2})
    evaluated(chain, SECOND, **{BATCHES: 1})
    assert chain.unfinished(FIRST) == chain.unfinished() == [SECOND]
    chain.check_finished()  # its training is the same
    evaluated(chain, SECOND, **{BATCHES: 2})
    assert chain.unfinished(FIRST) == chain.unfinished(SECOND) == []


def test_stage_whose_last_evaluation_failed_is_unfinished(chain):
    evaluated(chain, FIRST, **{BATCHES: 1})
    evaluated(chain, SECOND, **{BATCHES: 1})
    chain.run(SECOND).write_manifest(settings=(chain.run(SECOND).settings or {}) | {BATCHES: 2})
    assert chain.unfinished(FIRST) == []  # its results are those of the root's evaluation
    chain.root.write_manifest(settings=(chain.root.settings or {}) | {BATCHES: 2})
    assert chain.unfinished(FIRST) == [SECOND]
    with pytest.raises(ValueError, match="seed0 has no results of its last evaluation: run --stage root first"):
        chain.check_finished()


def test_stages_with_a_configuration_of_their_own_take_the_evaluation_of_the_one_that_ran(chain):
    first, second = (
        Stage(name, name, "classifier", erasures=name, config="classifier.yaml") for name in ("gradient/030", "random")
    )
    own = Chain(chain.root, [FIRST, first, second])
    save(own.run(second).manifest_file, {"status": "finished"})
    evaluated(own, FIRST, **{BATCHES: 1})
    evaluated(own, first, **{BATCHES: 2})
    evaluated(own, second, **{BATCHES: 3})
    assert own.unfinished(FIRST) == own.unfinished(first) == [second]
    assert own.unfinished(second) == [first]
    assert (own.to_compare(FIRST), own.to_compare(second)) == ([first], [])
