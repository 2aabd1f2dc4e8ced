"""null in an option of a class inside another class, which jsonargparse hands on as None."""

import json

import pytest
import yaml

from lightning_xai.commands.main import main
from lightning_xai.commands.parser.python_null import with_null

SOURCE = "data.init_args.source.init_args"


@pytest.mark.parametrize("text", ["a: None\nb: 1", "say None twice", "'None'", "'None", "Nones", "{a: '- None -'}"])
def test_texts_of_files_quoted_texts_and_longer_words_stay_as_they_are(text):
    assert with_null(text) == text


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("files.yaml", {"rationale_column": None, "class_names": None}),
        ("sst_out_of_domain.yaml", {"classes": {"movies": {"NEG": None, "POS": "positive"}}}),
    ],
)
def test_null_two_classes_deep_is_null(data, options, capsys):
    given = [part for name, value in options.items() for part in (f"--{SOURCE}.{name}", json.dumps(value))]
    with pytest.raises(SystemExit):
        main(["fit", "--config", "supervised.yaml", "--data", data, *given, "--print_config"])
    arguments = yaml.safe_load(capsys.readouterr().out)["data"]["init_args"]["source"]["init_args"]
    assert {name: arguments[name] for name in options} == options
