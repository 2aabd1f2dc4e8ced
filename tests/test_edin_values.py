"""The configurations of Edin et al. (2024) have the hyperparameters of the paper and of the authors' code."""

from typing import Any

import pytest

from tests.test_configs import parsed

TRAINED_ALIKE = ["unsupervised", "supervised", "igr", "pgd", "unsupervised_mimic"]
EARLY_STOPPING = "lightning.pytorch.callbacks.EarlyStopping"


def values(found: dict[str, Any], *names: str) -> list[Any]:
    """Returns the settings with the given dotted names; `init_args` are left out of the names."""
    chosen = []
    for name in names:
        value: Any = found
        for part in name.split("."):
            value = value["init_args"][part] if "init_args" in value else value[part]
        chosen.append(value)
    return chosen


def configuration(name: str) -> dict[str, Any]:
    return parsed("--config", f"mdace/{name}.yaml")


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    return {name: configuration(name) for name in [*TRAINED_ALIKE, "tm"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TRAINED_ALIKE, "tm"])
def test_all_models(found, name):
    settings = found[name]
    assert settings["model"]["init_args"]["network"]["class_path"].endswith("PLMCA")
    assert values(settings, "model.network.dropout", "model.network.segment_length") == [0.2, 128]
    assert values(settings, "model.network.mask_mode", "data.encoder.max_length") == ["correct", 6000]
    assert values(settings, "data.batch_size", "trainer.accumulate_grad_batches") == [8, 2]
    assert values(settings, "trainer.gradient_clip_val", "trainer.precision") == [1.0, "bf16-mixed"]
    assert values(settings, "checkpoint.monitor", "checkpoint.mode") == ["val/example_map", "max"]
    assert settings["model"]["init_args"]["optimizer"]["class_path"] == "torch.optim.AdamW"


@pytest.mark.parametrize("name", TRAINED_ALIKE)
def test_models_that_start_from_roberta_pm(found, name):
    settings = found[name]
    optimizer = values(settings, "model.optimizer.lr", "model.optimizer.weight_decay", "model.warmup_fraction")
    assert [*optimizer, *values(settings, "model.decay", "trainer.max_epochs")] == [5e-5, 0.0, 0.1, "linear", 20]
    (stopping,) = (one for one in settings["trainer"]["callbacks"] if one["class_path"] == EARLY_STOPPING)
    assert values(stopping, "monitor", "patience", "mode") == ["val/example_map", 3, "max"]


@pytest.mark.parametrize("name", ["unsupervised", "unsupervised_mimic"])
def test_b_u_has_no_other_term(found, name):
    assert not found[name]["model"]["init_args"]["terms"]


def test_b_s(found):
    (term,) = found["supervised"]["model"]["init_args"]["terms"].values()
    assert term["class_path"].endswith("SupervisedAttention")
    assert values(term, "weight", "reduction") == [2.5, "paper"]


def test_igr(found):
    (term,) = found["igr"]["model"]["init_args"]["terms"].values()
    assert term["class_path"].endswith("InputGradient")
    assert values(term, "weight", "wrt", "per", "norm") == [1e-5, "sequence", "example", "frobenius"]


def test_pgd(found):
    (term,) = found["pgd"]["model"]["init_args"]["terms"].values()
    assert term["class_path"].endswith("PGD")
    assert values(term, "weight", "epsilon", "initialization") == [0.5, 1e-5, "zeros"]
    assert values(term, "search.num_steps", "search.lr", "search.weight_decay", "search.tolerance") == [
        100, 0.1, 0.01, 0.005,
    ]  # fmt: skip


def test_tm(found):
    settings = found["tm"]
    assert values(settings, "model.masked_weight", "model.fidelity_weight") == [0.5, 0.01]
    search = values(settings, "model.search.num_steps", "model.search.lr", "model.search.weight_decay")
    assert [*search, *values(settings, "model.search.tolerance")] == [20, 0.1, 0.01, None]
    optimizer = values(settings, "model.optimizer.lr", "model.optimizer.weight_decay", "model.warmup_fraction")
    assert [*optimizer, *values(settings, "model.decay", "trainer.max_epochs")] == [1e-5, 0.0, 0.0, "constant", 1]
    assert settings["model"]["init_args"]["teacher"] == "runs/unsupervised/seed0"


def methods_of(*argv: str) -> dict[str, dict[str, Any]]:
    """Returns name -> method of the callbacks that a list of files adds to the training of B_U."""
    settings = parsed(
        "--config", "mdace/unsupervised.yaml", *(part for file in argv for part in ("--trainer.callbacks+", file))
    )
    (computing,) = (
        one for one in settings["trainer"]["callbacks"] if one["class_path"].endswith("ComputeAttributions")
    )
    return computing["init_args"]["methods"]


@pytest.mark.slow
def test_methods_of_the_authors_code():
    methods = methods_of("methods/edin_code.yaml")
    assert {name: method["class_path"].rpartition(".")[2] for name, method in methods.items()} == {
        "random": "Random", "attention": "Attention", "rollout": "AttentionRollout",
        "attention_gradient": "AttentionGradient", "input_x_gradient": "InputXGradient",
        "integrated_gradients": "IntegratedGradients", "deep_lift": "DeepLift", "att_in_grad": "AttInGrad",
    }  # fmt: skip
    assert values(methods["attention_gradient"], "sign") == ["absolute"]
    assert values(methods["input_x_gradient"], "pooling") == ["l2"]
    path = values(
        methods["integrated_gradients"], "num_steps", "quadrature", "multiply_by_inputs", "pooling", "baseline"
    )
    assert path == [50, "gausslegendre", False, "l2", "fill"]
    assert values(methods["deep_lift"], "pooling", "baseline") == ["l2", "fill"]


@pytest.mark.slow
def test_perturbation_methods_of_the_authors_code():
    methods = methods_of("methods/edin_code_perturbation.yaml")
    assert set(methods) == {"attention", "att_in_grad", "occlusion", "kernel_shap", "lime"}
    for name in ("occlusion", "kernel_shap", "lime"):
        assert values(methods[name], "transforms") == [["absolute"]]
    for name in ("kernel_shap", "lime"):  # None is 3 samples a token
        assert values(methods[name]["init_args"]["method"], "num_samples") == [None]
