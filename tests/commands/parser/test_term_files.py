"""Terms in several files and on the command line, and configurations from before terms."""

import json
import re
from typing import Any

import pytest
import yaml

from lightning_xai.commands.parser.old_objectives import with_terms
from lightning_xai.commands.parser.term_files import TERMS, merged_terms, with_merged_terms
from lightning_xai.objectives.inner_search import Search
from lightning_xai.objectives.terms.input_gradient import InputGradient
from lightning_xai.objectives.terms.pgd import PGD
from lightning_xai.objectives.terms.supervised_attention import SupervisedAttention

IGR = {"class_path": "InputGradient", "init_args": {"weight": 1, "wrt": "table"}}


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ({}, {"igr": IGR}),
        ({"igr": {"init_args": {"weight": 0}}}, {"igr": {**IGR, "init_args": {"weight": 0, "wrt": "table"}}}),
        ({"igr": {"class_path": "PGD"}}, {"igr": {"class_path": "PGD"}}),
        ({"igr": {"class_path": "InputGradient"}}, {"igr": IGR}),
        ({"pgd": {"class_path": "PGD"}}, {"igr": IGR, "pgd": {"class_path": "PGD"}}),
        ({"igr": None}, {}),
    ],
)
def test_a_later_file_changes_single_terms(later, expected):
    assert merged_terms({"igr": IGR}, later) == expected


def test_a_class_path_and_its_last_part_name_the_same_class():
    long = "lightning_xai.objectives.terms.input_gradient.InputGradient"
    later = {"igr": {"class_path": long, "init_args": {"norm": "token_sum"}}}
    merged = merged_terms({"igr": IGR}, later)["igr"]
    assert merged == {"class_path": long, "init_args": {"weight": 1, "wrt": "table", "norm": "token_sum"}}
    assert merged_terms({"igr": IGR}, {"igr": {"class_path": "mine.PGD"}}) == {"igr": {"class_path": "mine.PGD"}}


def test_merged_terms_stand_behind_the_last_file_and_before_later_arguments(tmp_path):
    files = [tmp_path / f"{name}.yaml" for name in "abc"]
    for file, terms in zip(files, ({"igr": IGR}, None, {"igr": {"init_args": {"weight": 0}}}), strict=True):
        file.write_text(yaml.safe_dump({"model": {"init_args": {"terms": terms} if terms else {}}}))
    argv = ["fit", *(part for file in files for part in ("--config", str(file))), "--seed_everything", "3"]
    merged = with_merged_terms(argv)
    option, _, value = merged[7].partition("=")
    assert option == f"--{TERMS}" and json.loads(value)["igr"]["init_args"] == {"weight": 0, "wrt": "table"}
    assert merged[:7] == argv[:7] and merged[8:] == argv[7:]


WEIGHT = f"--{TERMS}.vat.init_args.weight"


@pytest.mark.parametrize(
    ("terms", "has"), [(None, "the configuration has no terms"), ({"igr": IGR}, "the terms are igr")]
)
@pytest.mark.parametrize("option", [[WEIGHT, "0.1"], [f"{WEIGHT}=0.1"]])
def test_an_option_for_a_term_that_is_not_there_says_how_to_add_it(tmp_path, terms, has, option):
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump({"model": {"init_args": {"terms": terms}}}))
    message = re.escape(f"no term vat for {WEIGHT} ({has}): correct the name, or put --{TERMS}.vat CLASS before this")
    with pytest.raises(ValueError, match=message):
        with_merged_terms(["fit", "--config", str(file), *option])
    added = ["fit", "--config", str(file), f"--{TERMS}.vat", "VAT", *option]
    assert with_merged_terms(added) == added


MODELS: dict[str, Any] = {
    "model in a file": "parts/model.yaml",
    "terms in a file": {"init_args": {"terms": "parts/terms.yaml"}},
    "a term in a file": {"init_args": {"terms": {"igr": "parts/igr.yaml"}}},
    "objective of before": {
        "class_path": "lightning_xai.objectives.input_gradient.InputGradient",
        "init_args": {"weight": 1, "wrt": "table"},
    },
}  # fmt: skip


@pytest.fixture(params=MODELS)
def referring(request, tmp_path) -> str:
    """A file whose term igr lies in another file, or is an objective of before."""
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "model.yaml").write_text(yaml.safe_dump({"init_args": {"terms": "terms.yaml"}}))
    (parts / "terms.yaml").write_text(yaml.safe_dump({"igr": IGR}))
    (parts / "igr.yaml").write_text(yaml.safe_dump(IGR))
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({"model": MODELS[request.param]}))
    return str(tmp_path / "a.yaml")


def test_a_second_file_keeps_terms_to_which_the_first_file_refers(tmp_path, referring):
    second = {"pgd": {"class_path": "PGD"}, "igr": {"init_args": {"weight": 0}}}
    (tmp_path / "b.yaml").write_text(yaml.safe_dump({"model": {"init_args": {"terms": second}}}))
    merged = json.loads(
        with_merged_terms(["--config", referring, "--config", str(tmp_path / "b.yaml")])[4].split("=")[1]
    )
    assert merged["igr"]["init_args"] == {"weight": 0, "wrt": "table"} and merged["pgd"] == {"class_path": "PGD"}


@pytest.mark.parametrize("ending", ["yaml", "json", "conf"])
def test_files_of_any_ending_are_merged(ending, tmp_path):
    files = []
    for name, terms in {"first": {"igr": IGR}, "second": {"pgd": {"class_path": "PGD"}}}.items():
        files.append(tmp_path / f"{name}.{ending}")
        files[-1].write_text(json.dumps({"model": {"init_args": {"terms": terms}}}))
    *_, option = with_merged_terms(["fit", *(word for file in files for word in ("--config", str(file)))])
    assert set(json.loads(option.removeprefix(f"--{TERMS}="))) == {"igr", "pgd"}


def test_an_option_for_a_term_that_a_referred_file_lacks_is_refused(referring):
    assert with_merged_terms(["--config", referring, WEIGHT.replace("vat", "igr"), "0"])[2:] == [
        WEIGHT.replace("vat", "igr"), "0",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"no term vat for .*the terms are igr"):
        with_merged_terms(["--config", referring, WEIGHT, "0.1"])


@pytest.mark.parametrize("model", ["missing.yaml", "${other}", {"init_args": {"terms": "${other}"}}])
def test_terms_that_cannot_be_known_are_left_to_the_parser_or_refused_beside_others(tmp_path, model):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text(yaml.safe_dump({"model": model}))
    second.write_text(yaml.safe_dump({"model": {"init_args": {"terms": {"igr": IGR}}}}))
    argv = ["fit", "--config", str(first), WEIGHT, "0.1"]
    assert with_merged_terms(argv) == argv
    with pytest.raises(ValueError, match="a.yaml takes its terms from .*: write them into it"):
        with_merged_terms(["fit", "--config", str(first), "--config", str(second)])


def test_terms_that_are_null_in_a_file_remove_those_of_earlier_files(tmp_path):
    first, second, third = (tmp_path / f"{name}.yaml" for name in "abc")
    for file, terms in ((first, {"igr": IGR}), (second, None), (third, {"pgd": {"class_path": "PGD"}})):
        file.write_text(yaml.safe_dump({"model": {"init_args": {"terms": terms}}}))
    argv = ["fit", "--config", str(first), "--config", str(second)]
    # several files without terms give the same setting as one such file
    assert with_merged_terms(["fit", "--config", str(second)] * 2)[-1:] == [f"--{TERMS}=null"]
    assert with_merged_terms(argv)[5:] == [f"--{TERMS}=null"]
    merged = with_merged_terms([*argv, "--config", str(third)])[7:]
    assert merged == [f"--{TERMS}={json.dumps({'pgd': {'class_path': 'PGD'}})}"]


@pytest.mark.parametrize(
    ("old", "name", "expected", "task_weight"),
    [
        ("input_gradient.InputGradient", "igr", InputGradient(weight=0.5, wrt="table"), None),
        ("pgd.PGD", "pgd", PGD(weight=0.25, epsilon=0.1, search=Search(3)), 0.75),
        ("supervised_attention.SupervisedAttention", "attention", SupervisedAttention(reduction="per_code"), None),
    ],
)
def test_an_objective_of_before_becomes_a_term_with_its_arguments(old, name, expected, task_weight):
    arguments_of: dict[str, dict[str, Any]] = {
        "igr": {"weight": 0.5, "wrt": "table"},
        "pgd": {"epsilon": 0.1, "clean_weight": 0.75, "adversarial_weight": 0.25, "search": {"num_steps": 3}},
        "attention": {"reduction": "per_code"},
    }
    given = arguments_of[name]
    new = with_terms({"class_path": f"lightning_xai.objectives.{old}", "init_args": {"network": "n", **given}})
    arguments = new["init_args"]
    assert new["class_path"].endswith("Supervised") and arguments["network"] == "n"
    assert arguments.get("task_weight") == task_weight
    (term,) = arguments["terms"].values()
    built = dict(term["init_args"])
    if "search" in built:
        built["search"] = Search(**built["search"])
    assert term["class_path"] == f"{type(expected).__module__}.{type(expected).__name__}"
    ours = {key: value for key, value in vars(type(expected)(**built)).items() if not key.startswith("_")}
    assert ours == {key: value for key, value in vars(expected).items() if not key.startswith("_")}


def test_other_settings_stay_as_they_are():
    setting = {"class_path": "lightning_xai.objectives.supervised.Supervised", "init_args": {"network": "n"}}
    assert with_terms(setting) is setting
