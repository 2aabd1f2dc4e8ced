"""The order of the runs that a command needs, with a command that only says which runs it asks for."""

from types import SimpleNamespace

import pytest

from lightning_xai.commands import stage_runs


@pytest.fixture
def commands(monkeypatch):
    """Returns a function that runs a command, given (next_run, is_done) of each run in order; returns the commands."""

    def commands(*asked):
        made, runs = [], iter(asked)

        def cli(argv, *_):
            made.append(argv)
            next_run, is_done = next(runs)
            run = SimpleNamespace(path="runs/x", best_checkpoint=None, missed_its_bounds=False)
            return SimpleNamespace(
                next_run=next_run, is_done=is_done, is_dry=False, run=run, subcommand="fit", trainer=None
            )

        monkeypatch.setattr(stage_runs, "XAICLI", cli)
        monkeypatch.setattr(stage_runs, "check_files", lambda argv: None)
        monkeypatch.setattr(stage_runs, "with_merged_files", lambda argv: argv)
        monkeypatch.setattr(stage_runs, "callbacks_of", lambda trainer: [])
        monkeypatch.setattr(stage_runs, "run_to_explain", lambda run, callbacks: run)
        stage_runs.run_stages(["fit"])
        return made

    return commands


def test_stages_that_follow_each_other_may_have_the_same_file_of_settings(commands):
    def stage(name):
        return ["--config", "classifier.yaml", "--experiment", name]

    made = commands((stage("a"), True), (stage("b"), True), ([], True))
    assert [command[-1] for command in made[1:]] == ["a", "b"]


def test_a_run_that_must_come_first_may_not_ask_for_its_own_file(commands):
    teacher = ["--config", "teacher.yaml", "--experiment", "x_teacher"]
    with pytest.raises(ValueError, match="set `model` in teacher.yaml to an objective that trains the network"):
        commands((teacher, False), ([*teacher[:3], "x_teacher_teacher"], False))
