"""Classification metrics against scikit-learn, and which examples count."""

import decimal

import pytest
import torch
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, log_loss, roc_auc_score

from lightning_xai.metrics.classification import ClassificationMetrics, class_margins

# softmax in float32 sums to one within a rounding error
pytestmark = pytest.mark.filterwarnings("ignore:The y_prob values")


def random_case(num_examples, num_classes, multilabel, seed=0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(num_examples, num_classes, generator=generator)
    if multilabel:
        probs = (logits.sigmoid() * 20).round() / 20  # with ties
        return probs, (torch.rand(num_examples, num_classes, generator=generator) < 0.3).float()
    return logits.softmax(dim=-1), torch.randint(0, num_classes, (num_examples,), generator=generator)


def values_of(probs, labels, *, multilabel=False, threshold=0.5):
    metric = ClassificationMetrics(probs.shape[1], multilabel)
    metric.update(probs, labels, torch.arange(len(probs)))
    return {name: float(value) for name, value in metric.compute(threshold=threshold).items()}


@pytest.mark.parametrize("num_classes", [2, 4])
def test_single_label_values_equal_scikit_learn(num_classes):
    probs, labels = random_case(60, num_classes, False)
    predicted = probs.argmax(dim=1)
    expected = {
        "accuracy": accuracy_score(labels, predicted),
        "macro_f1": f1_score(labels, predicted, average="macro"),
        "auroc": roc_auc_score(labels, probs[:, 1] if num_classes == 2 else probs, multi_class="ovr"),
        "log_loss": log_loss(labels, probs),
        "num_examples": 60,
    }
    assert values_of(probs, labels) == pytest.approx(expected, abs=1e-6)


def test_multilabel_values_equal_scikit_learn():
    probs, labels = random_case(60, 5, True)
    predicted = (probs > 0.4).numpy()
    values = values_of(probs, labels, multilabel=True, threshold=0.4)
    expected = {
        "micro_f1": f1_score(labels, predicted, average="micro"),
        "macro_f1": f1_score(labels, predicted, average="macro"),
        "map": average_precision_score(labels, probs, average="macro"),
        "auroc": roc_auc_score(labels, probs, average="macro"),
        "exact_match": accuracy_score(labels, predicted),
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("num_classes", "multilabel"), [(2, False), (4, False), (3, True)])
@pytest.mark.parametrize("scale", [1, 60], ids=["moderate", "saturated"])
def test_rankings_are_those_of_exact_probabilities(num_classes, multilabel, scale):
    generator = torch.Generator().manual_seed(1)
    logits = scale * (2 + torch.randn(80, num_classes, generator=generator))
    labels = (
        (torch.rand(80, num_classes, generator=generator) < 0.3).float()
        if multilabel
        else torch.randint(0, num_classes, (80,), generator=generator)
    )
    probs = logits.sigmoid() if multilabel else logits.softmax(dim=-1)
    metric = ClassificationMetrics(num_classes, multilabel)
    metric.update(probs, labels, torch.arange(80), logits)
    gold = labels if multilabel else torch.nn.functional.one_hot(labels, num_classes)
    odds = [exact_log_odds(logits, c, multilabel) for c in range(num_classes)]
    ranked = [1] if num_classes == 2 else range(num_classes)
    expected = {"auroc": sum(roc_auc_score(gold[:, c], odds[c]) for c in ranked) / len(ranked)}
    if multilabel:
        expected["map"] = sum(average_precision_score(gold[:, c], odds[c]) for c in ranked) / len(ranked)
    values = metric.compute()
    assert {name: float(values[name]) for name in expected} == pytest.approx(expected, abs=1e-6)
    from_probs = values_of(probs, labels, multilabel=multilabel)
    lost = any(abs(from_probs[name] - expected[name]) > 1e-4 for name in expected)
    assert lost == (scale == 60)
    others = {name: float(value) for name, value in values.items() if "map" not in name and name != "auroc"}
    assert others == {name: from_probs[name] for name in others}


def exact_log_odds(logits: torch.Tensor, c: int, multilabel: bool) -> list[float]:
    """Returns log(p / (1 - p)) of class c, from sums of numbers of any size."""
    odds = []
    for row in logits.tolist():
        others = [0.0] if multilabel else [value for k, value in enumerate(row) if k != c]
        rest = sum((decimal.Decimal(value).exp() for value in others), decimal.Decimal(0))
        odds.append(row[c] - float(rest.ln()))
    return odds


def test_rows_of_logits_that_differ_by_a_constant_stay_equal():
    rows = torch.randn(5, 3).bfloat16().float()
    margins = class_margins(torch.cat([rows, rows + 0.5, rows - 2.0]), multilabel=False)
    assert torch.equal(margins[:5], margins[5:10]) and torch.equal(margins[:5], margins[10:])


def test_classes_without_positives_do_not_enter_the_mean_average_precision():
    probs, labels = torch.tensor([[0.9, 0.2, 0.3], [0.1, 0.8, 0.4]]), torch.tensor([[1.0, 0, 0], [0, 0, 0]])
    assert values_of(probs, labels, multilabel=True)["map"] == 1  # torchmetrics counts the others as 0 (#2494)


@pytest.mark.slow
@pytest.mark.parametrize("num_classes", [6, 300])
def test_values_of_present_classes_equal_scikit_learn_without_the_other_classes(num_classes):
    probs, labels = random_case(300, num_classes, True)
    labels[:, [1, 4]] = 0  # predicted, but never gold
    present = labels.any(dim=0)
    values = values_of(probs, labels, multilabel=True, threshold=0.4)
    gold, kept = labels[:, present], probs[:, present]
    some = gold.any(dim=1)
    expected = {
        "example_map": average_precision_score(gold[some], kept[some], average="samples"),
        "present_micro_f1": f1_score(gold, kept > 0.4, average="micro"),
        "present_macro_f1": f1_score(gold, kept > 0.4, average="macro"),
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert values["present_micro_f1"] > values["micro_f1"] and values["present_macro_f1"] > values["macro_f1"]


def test_value_follows_the_threshold_of_each_call():
    metric = ClassificationMetrics(2, multilabel=True)
    metric.update(torch.tensor([[0.3, 0.7]]), torch.tensor([[1.0, 1.0]]), torch.tensor([0]))
    assert metric.compute(threshold=0.5)["micro_recall"] == 0.5
    assert metric.compute(threshold=0.2)["micro_recall"] == 1


@pytest.mark.slow
def test_best_threshold_equals_a_search_over_the_grid():
    probs, labels = random_case(40, 6, True, seed=3)
    metric = ClassificationMetrics(6, True)
    metric.update(probs, labels, torch.arange(40))
    grid = torch.linspace(0, 1, 100)
    scores = [f1_score(labels, (probs > t).numpy(), average="micro", zero_division=0) for t in grid]
    assert metric.best_threshold() == float(grid[int(torch.tensor(scores).argmax())])


def test_repeated_examples_count_once():
    probs, labels = random_case(10, 3, False)
    metric = ClassificationMetrics(3)
    metric.update(probs, labels, torch.arange(10))
    metric.update(probs[:4], labels[:4], torch.arange(4))
    assert {name: float(value) for name, value in metric.compute().items()} == values_of(probs, labels)


def test_low_precision_probabilities_are_accepted():
    probs, labels = random_case(10, 3, True)
    metric = ClassificationMetrics(3, True)
    metric.update(probs.bfloat16(), labels.bfloat16(), torch.arange(10))
    assert metric.compute()["map"].isfinite()


def test_reset_forgets_everything():
    metric = ClassificationMetrics(3)
    metric.update(*random_case(10, 3, False), torch.arange(10))
    metric.reset()
    metric.update(torch.eye(3), torch.arange(3), torch.arange(3))
    assert metric.compute()["accuracy"] == 1


@pytest.mark.filterwarnings("ignore:.*before the ``update``.*")
@pytest.mark.parametrize("multilabel", [False, True])
def test_no_example_gives_nan_instead_of_an_error(multilabel):
    metric = ClassificationMetrics(3, multilabel)
    values = metric.compute()
    assert values.pop("num_examples") == 0
    assert all(value.isnan() for value in values.values())
    assert metric.best_threshold() == 0.5
