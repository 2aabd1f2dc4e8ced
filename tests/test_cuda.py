"""On a CUDA device: every method has the scores of the CPU, every experiment runs in mixed precision, presets agree."""

import numpy as np
import pytest
import torch

from lightning_xai.models.bilstm import BiLSTMAttention
from tests.attributions.test_attribution_contracts import TARGETS, build, each_method
from tests.commands.conftest import COST_COLUMNS
from tests.commands.conftest import plain as plain  # a fixture
from tests.conftest import VOCAB_SIZE, text_inputs, tiny_classifier
from tests.test_configs import EXPERIMENTS, measure, names, run_tiny

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def network(kind: str):
    if kind == "bilstm":
        return BiLSTMAttention(VOCAB_SIZE, 3, embedding_size=12, hidden_size=8).eval()
    return tiny_classifier(kind)


@pytest.mark.parametrize("kind", ["bert", "llama", "plm_ca", "bilstm"])
@each_method
def test_scores_are_those_of_the_cpu(cls, kind):
    model, inputs = network(kind).double(), text_inputs([6, 13, 9])
    model.set_attention("eager")
    try:
        wanted = build(cls).attribute(model, inputs, TARGETS).scores
    except ValueError as error:
        if kind == "bert" or "non-finite" in str(error):  # every method explains BERT
            raise
        pytest.skip(f"{cls.__name__} does not explain {kind}: {error}")
    found = build(cls).attribute(model.cuda(), inputs.to("cuda"), TARGETS.cuda()).scores
    assert found.is_cuda
    # transformers computes Llama's norms, positions and softmax in single precision, whatever the weights have
    tolerance = 1e-4 if kind == "llama" else 1e-7
    torch.testing.assert_close(found.cpu(), wanted, rtol=tolerance, atol=tolerance * float(wanted.abs().max()))


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=names(EXPERIMENTS))
def test_experiment_runs_in_mixed_precision(experiment, tmp_path, plain, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = run_tiny(experiment, tmp_path, plain, accelerator="gpu", devices=1, precision="bf16-mixed")
    assert results["value"].notna().any()


def test_presets_give_the_numbers_of_the_cpu(plain, tmp_path):
    tables = []
    for device in ("cpu", "gpu"):
        folder = tmp_path / device
        folder.mkdir()
        tables.append(measure(plain, folder, accelerator=device, devices=1).drop(columns=COST_COLUMNS))
    wanted, found = tables
    assert (wanted.drop(columns="value") == found.drop(columns="value")).all(axis=None)
    np.testing.assert_allclose(found["value"], wanted["value"], rtol=1e-3, atol=1e-4)
