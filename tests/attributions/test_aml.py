"""pAML and fAML on tiny networks: batches, the choice among steps, what is refused, what stays unchanged."""

import copy
import functools
from dataclasses import replace
from typing import Any

import pytest
import torch

from lightning_xai.attributions import laws
from lightning_xai.attributions.aml import AMLAttribution, best_candidates
from lightning_xai.attributions.base import explaining
from lightning_xai.attributions.given import give_scorer
from lightning_xai.attributions.tiny_networks import tiny_networks
from lightning_xai.functional.laws import network_state
from lightning_xai.functional.network.untouched import network_kept
from lightning_xai.metrics.complexity import Entropy, Sparsity
from lightning_xai.metrics.faithfulness import Comprehensiveness, Sufficiency
from lightning_xai.metrics.plausibility import EvidenceOverlap
from lightning_xai.metrics.top_units import Percentages
from lightning_xai.models.scorer.dual_mask import DualMask, masked_losses
from lightning_xai.models.scorer.scorer_checkpoint import TrainedScorer
from lightning_xai.models.scorer.token_scorer import TokenScorer
from lightning_xai.runs.fingerprint import weights_hash
from lightning_xai.types import Attribution, Batch, Selector
from tests.conftest import TINY_CONFIGS, text_inputs, tiny_classifier

LENGTHS = [6, 13, 9]
BERT = functools.cache(lambda: tiny_networks()[0])
STRONG = 3e-2  # a learning rate at which ten steps change the order of the tokens


def comp(**options: Any) -> Comprehensiveness:
    return Comprehensiveness(Percentages([20, 50]), **options)


def trained_for(network, *, condition: Any = "probabilities", **loss: Any) -> TrainedScorer:
    """Returns a scorer with the weights of the seed, whose logits differ clearly between tokens."""
    torch.manual_seed(3)
    scorer = TokenScorer(config=TINY_CONFIGS["bert"], num_classes=network.num_classes, condition=condition)
    with torch.no_grad():
        for parameter in scorer.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    scorer.to(network.embedding_matrix).eval()
    facts = {"path": "runs/f/seed0", "hash": "0a1b", "weights": weights_hash(network)}
    return TrainedScorer(scorer, DualMask(**loss), 4e-5, 0.01, "comprehensiveness", facts)


def explains(network, condition: Any = "probabilities", **options: Any) -> AMLAttribution:
    method, trained = AMLAttribution(None, **options), trained_for(network, condition=condition)
    give_scorer([method], lambda: trained)
    return method


def tuned(network, condition: Any = "probabilities", **options: Any) -> AMLAttribution:
    defaults: dict[str, Any] = {"num_steps": 4, "metric": comp(), "lr": STRONG}
    return explains(network, condition, **(defaults | options))


def predicted(network, inputs) -> torch.Tensor:
    return network.predict(inputs).argmax(dim=1, keepdim=True)


def scores(method, network, inputs, targets=None) -> torch.Tensor:
    targets = predicted(network, inputs) if targets is None else targets
    with explaining(network, "cpu"):
        return method.scores(network, inputs, targets)


@pytest.fixture
def network():
    return copy.deepcopy(BERT()).double()


@pytest.fixture(scope="module", params=[{}, {"num_steps": 2, "metric": comp(), "lr": STRONG}], ids=["pAML", "fAML"])
def explaining_method(request):
    """A method and the network that it explains, the same for all laws, which share scores."""
    network = copy.deepcopy(BERT())
    return explains(network, "class", **request.param), network


@pytest.mark.parametrize("law", laws.LAWS, ids=lambda law: law.__name__)
def test_law(law, explaining_method):
    method, network = explaining_method
    with network_kept(network):
        law(method, network)


def test_paml_is_the_sigmoid_of_the_scorers_logits(network):
    inputs, method = text_inputs(LENGTHS), explains(network)
    probs = network.probabilities(network(inputs).logits).double()
    scorer = trained_for(network).scorer
    expected = scorer(inputs, probs).sigmoid() * inputs.token_mask
    assert torch.allclose(scores(method, network, inputs)[:, 0], expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "chunk_size"), [("all", None), ("all", 2), ("last:1", None), ("lora:2", None)])
def test_a_batch_is_tuned_like_each_text_alone(kind, chunk_size, network):
    inputs = text_inputs(LENGTHS, pad_to=15)
    method = tuned(network, num_steps=2, tuned=kind, chunk_size=chunk_size)
    together = scores(method, network, inputs)
    alone = [scores(method, network, inputs[row : row + 1].trim()) for row in range(3)]
    for row, single in enumerate(alone):
        assert torch.allclose(together[row, :, : single.shape[-1]], single[0], rtol=0, atol=1e-8)
    pretrained = scores(explains(network), network, inputs)
    assert (together - pretrained).abs().max() > 1e-2  # tuning has an effect


def by_hand(network, inputs, num_steps: int, metric: Any, lr: float) -> tuple[torch.Tensor, int]:
    """Returns the scores [T] of one text and the kept step; tunes a deep copy of the scorer with its own optimizer."""
    trained = trained_for(network)
    scorer = copy.deepcopy(trained.scorer)
    scorer.z.requires_grad_(False)
    network.requires_grad_(False)
    y = network.probabilities(network(inputs).logits).double()
    optimizer = torch.optim.AdamW([p for p in scorer.parameters() if p.requires_grad], lr=lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (20 - step) / 20)
    target, one = y.argmax(dim=1, keepdim=True), torch.ones(1, 1, dtype=torch.bool)
    maps, values = [], []
    for _ in range(num_steps + 1):
        logits = scorer(inputs, y)
        maps.append(logits.detach().sigmoid()[0] * inputs.token_mask[0])
        attribution = Attribution(maps[-1][None, None], target, one, inputs.token_mask)
        metric.reset()
        metric.update(attribution, Batch(inputs, target[:, 0]), network.predict)
        values.append(float(metric.compute()[metric.name]))
        optimizer.zero_grad()
        masked_losses(network, inputs, y, logits, trained.loss)["loss"].sum().backward()
        optimizer.step()
        schedule.step()
    best = max(values) if metric.higher_is_better else min(values)
    return maps[values.index(best)], values.index(best)


@pytest.mark.slow
@pytest.mark.parametrize("metric", [comp(), Sufficiency(Percentages([20, 50])), Entropy()], ids=lambda m: m.name)
def test_tuning_is_that_of_a_copied_scorer_with_its_own_optimizer(metric, network):
    inputs = text_inputs(LENGTHS)
    method = tuned(network, num_steps=3, metric=metric)
    found = scores(method, network, inputs)[:, 0]
    steps = []
    for row in range(3):
        text = inputs[row : row + 1].trim()
        expected, step = by_hand(network, text, 3, copy.deepcopy(metric), STRONG)
        steps.append(step)
        assert torch.allclose(found[row, : len(expected)], expected, atol=1e-6)
    assert sorted(method.kept_steps.elements()) == sorted(steps)


class MaskSize(Selector):
    """The sum of a text's scores, which a loss of only the size lowers in each step."""

    name, higher_is_better = "mask_size", False

    def require_selection(self) -> None:
        """Any attribution has a size."""

    def passes(self, num_units: int, num_methods: int) -> float:
        return 0.0

    def rate(self, attribution: Attribution, batch: Batch, network: Any) -> torch.Tensor:
        return attribution.scores.sum(dim=-1).double()


def test_the_map_after_the_last_step_is_a_candidate(network):
    method = AMLAttribution(None, num_steps=2, metric=MaskSize(), lr=1e-3)
    trained = trained_for(network, kept_weight=1e-6, inverse_weight=0.0, size_weight=1.0)
    give_scorer([method], lambda: trained)
    scores(method, network, text_inputs(LENGTHS))
    assert method.kept_steps == {2: 3}


def test_equal_candidates_keep_the_earliest():
    values = torch.tensor([[0.1, 0.3, 0.3], [0.3, 0.1, 0.1], [torch.nan, torch.nan, torch.nan], [torch.nan, 1.0, 2.0]])
    assert best_candidates(values, higher_is_better=True).tolist() == [1, 0, 0, 2]
    assert best_candidates(values, higher_is_better=False).tolist() == [0, 1, 0, 1]


@pytest.mark.slow
def test_in_float32_the_kept_metric_of_a_batch_agrees_with_that_of_single_texts():
    network = tiny_classifier("bert")
    inputs = text_inputs(LENGTHS)
    method, targets = tuned(network, num_steps=2), predicted(network, inputs)

    def value(found) -> torch.Tensor:
        attribution = Attribution(found, targets, torch.ones_like(targets, dtype=torch.bool), inputs.token_mask)
        return comp().rate(attribution, Batch(inputs, targets[:, 0]), network)

    together = value(scores(method, network, inputs))
    alone = [scores(method, network, inputs[row : row + 1]) for row in range(3)]
    assert torch.allclose(together, value(torch.cat(alone)), atol=1e-3)


def test_the_scorer_and_the_explained_network_stay_as_they_were(network):
    trained, method = trained_for(network), tuned(network)
    give_scorer([method], lambda: trained)
    trained.scorer.train()
    before = network_state(trained.scorer), network_state(network)
    generator = torch.get_rng_state()
    scores(method, network, text_inputs(LENGTHS))
    after = network_state(trained.scorer), network_state(network)
    for old, new in zip(before, after, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(old["weights"], new["weights"], strict=True))
        assert {k: v for k, v in old.items() if k != "weights"} == {k: v for k, v in new.items() if k != "weights"}
    assert torch.equal(torch.get_rng_state(), generator)


def test_a_scorer_of_probabilities_refuses_other_classes_than_the_predicted_one(network):
    inputs = text_inputs(LENGTHS)
    other = (predicted(network, inputs) + 1) % 3
    with pytest.raises(ValueError, match="is not the predicted class.*targets: predicted"):
        scores(explains(network), network, inputs, other)
    found = scores(explains(network, "class"), network, inputs, torch.tensor([[0, 1, 2]] * 3))
    assert (found[:, 0] - found[:, 1]).abs().max() > 1e-3


def test_a_scorer_of_another_network_is_refused_with_both_hashes(network):
    other, inputs = tiny_classifier("bert", seed=1).double(), text_inputs(LENGTHS)
    method = explains(network)
    scores(method, network, inputs)
    with pytest.raises(
        ValueError, match=rf"hash {weights_hash(network)}\), but this network has .* {weights_hash(other)}"
    ):
        scores(method, other, inputs)
    with torch.no_grad():
        network.transformer.classifier.bias += 1
    with pytest.raises(ValueError, match="but this network has"):
        scores(method, network, inputs)


def test_a_text_without_explainable_tokens_scores_0(network):
    inputs = text_inputs(LENGTHS)
    inputs = replace(inputs, token_mask=inputs.token_mask & torch.tensor([[True], [False], [True]]))
    found = scores(tuned(network), network, inputs)
    assert not found[1].any() and found[0].any() and found[2].any()


def test_a_multilabel_network_is_refused(network):
    method = explains(network)
    network.multilabel = True
    with pytest.raises(ValueError, match="AML explains single-label networks"):
        scores(method, network, text_inputs(LENGTHS))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_steps": 1}, "num_steps is 1 without a metric"),
        ({"metric": comp()}, "num_steps is 0, but a metric is given"),
        ({"num_steps": 21, "metric": comp()}, "num_steps is 21: give a number from 0 to 20"),
        ({"num_steps": 1, "metric": comp(explained="gold")}, "reads gold labels or rationales"),
        ({"num_steps": 1, "metric": EvidenceOverlap()}, "reads gold labels or rationales"),
        ({"num_steps": 1, "metric": Sparsity()}, "does not say whether higher is better"),
        (
            {"num_steps": 1, "metric": comp(aggregate="per_k")},
            "has several values: .* set `aggregate: mean` if it has this argument",
        ),
        ({"lr": 0.0}, "lr is 0.0: give a learning rate above 0"),
        ({"tuned": "last"}, "tuned is 'last'"),
        ({"tuned": "lora:0"}, "tuned is 'lora:0'"),
        ({"chunk_size": 0}, "chunk_size is 0"),
    ],
)
def test_settings_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AMLAttribution(None, **options)


def test_without_a_scorer_the_remedy_is_named(network):
    with pytest.raises(ValueError, match="has no scorer: set scorer to the folder"):
        scores(AMLAttribution(None), network, text_inputs(LENGTHS))


def test_passes_are_those_of_both_networks():
    assert AMLAttribution(None).passes(10, 1) == (2, 0)
    method = AMLAttribution(None, num_steps=10, metric=comp())  # 20 % and 50 % of 10 tokens: two erased versions
    assert method.passes(10, 1) == (1 + 11 + 20 + 2 * 11, 30)
    assert method.passes(0, 1) == (2, 0)


@pytest.mark.parametrize(("options", "expected"), [({}, 1), ({"num_steps": 2, "metric": comp()}, 0)])
def test_only_paml_makes_a_pass_of_the_scorer_itself(options, expected, network):
    """In fAML, the first pass of the copy that is tuned gives the scores before tuning."""
    method, trained, passes = AMLAttribution(None, **options), trained_for(network), list[str]()
    give_scorer([method], lambda: trained)
    trained.scorer.register_forward_hook(lambda *_: passes.append("scorer"))
    scores(method, network, text_inputs([6]))
    assert len(passes) == expected


def test_selected_on_names_the_metric_that_chose_the_scores(network):
    method = explains(network)
    scores(method, network, text_inputs(LENGTHS))
    assert method.selected_on == "validation:comprehensiveness"
    assert tuned(network).selected_on == "comprehensiveness"
