"""The data module: its checks, loaders and subsets, and Lightning's use of its samplers."""

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer

from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.base import TextSource, rows_to_splits
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder

GOOD = {"text": "w1 w2 w3", "labels": 1, "rationales": [{"label": 1, "spans": [[0, 2]]}], "id": "a"}


class Rows(TextSource):
    """The given rows as every split."""

    class_names = ["no", "yes"]

    def __init__(self, *rows, multilabel=False, **splits):
        self.multilabel = multilabel  # perhaps a false claim, since the rows are single-label
        self.splits = {"train": rows, "validation": rows, "test": rows} | splits

    def load(self):
        return rows_to_splits(self.splits)


def module(source=None, **options):
    return TextDataModule(
        source or Planted(num_train=50, num_validation=11, num_test=7), VocabularyEncoder(words=95), **options
    )


def test_data_is_fetched_before_a_network_asks_for_its_vocabulary():
    class Fetched(Rows):
        def prepare(self):
            self.fetched = True

        def load(self):
            assert self.fetched
            return super().load()

    assert TextDataModule(Fetched(GOOD), VocabularyEncoder(words=None)).vocab_size == 5 + 3


@pytest.mark.parametrize(
    "bad, message",
    [
        ({"labels": 2}, "train row 'a': label 2 is not one of the 2 classes .0-1.; correct"),
        ({"labels": -1}, "train row 'a': label -1"),
        ({"labels": None}, "train row 'a': label None"),
        ({"text": None}, "train row 'a': text is None"),
        ({"rationales": [{"label": 1, "spans": [[0, 9]]}]}, "train row 'a': rationale span .0, 9. .*correct or remove"),
        ({"rationales": [{"label": 5, "spans": [[0, 2]]}]}, "train row 'a': label 5"),
    ],
)
def test_bad_row_is_named_before_training(bad, message):
    with pytest.raises(ValueError, match=message):
        module(Rows(GOOD, GOOD | bad)).setup("fit")


def test_labels_of_the_wrong_kind_are_refused():
    with pytest.raises(ValueError, match="labels is 1, not a list of classes"):
        module(Rows(GOOD, multilabel=True)).split("train")


def test_empty_split_is_refused():
    with pytest.raises(ValueError, match="'train' of Rows"):
        module(Rows(GOOD, train=[])).setup("fit")


def test_missing_column_is_refused():
    with pytest.raises(ValueError, match="lacks column 'id'"):
        module(Rows({key: value for key, value in GOOD.items() if key != "id"})).setup("fit")


def test_unknown_split_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="no split 'dev': the splits of Planted are train, validation, test"):
        module(predict_split="dev").setup("predict")


def test_error_about_a_missing_validation_split_says_how_to_test_without_it():
    class OnlyTest(Rows):
        def load(self):
            return rows_to_splits({"test": self.splits["test"]})

    data = module(OnlyTest(GOOD))
    with pytest.raises(ValueError, match="'validation': .* are test; .* set data.init_args.tune_on_validation"):
        data.setup("test")
    data.tune_on_validation = False
    data.setup("test")
    assert data.test_splits == ["test"]


def test_max_examples_is_a_number_for_all_splits_or_one_for_each():
    limited, each = module(max_examples=5), module(max_examples={"train": 5, "validation": 5, "test": 5})
    for data in (limited, each):
        data.setup()
    assert [len(limited.split(name)) for name in ("train", "validation", "test")] == [5, 5, 5]
    assert all(limited.split(name).hash() == each.split(name).hash() for name in ("train", "validation", "test"))


def test_unknown_split_in_max_examples_is_refused():
    with pytest.raises(ValueError, match="max_examples limits a split 'dev', which does not exist"):
        module(max_examples={"dev": 3}).setup("fit")


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"max_tokens_per_batch": 0}, {"max_examples": {"test": 0}}])
def test_size_of_nothing_is_refused_at_construction(options):
    with pytest.raises(ValueError, match=" is 0: give a number of at least 1"):
        module(**options)


def test_row_over_the_token_budget_is_refused():
    with pytest.raises(ValueError, match="more than max_tokens_per_batch=5: raise max_tokens_per_batch, or lower"):
        module(max_tokens_per_batch=5).setup("fit")


def test_classes_are_known_before_the_data_are_loaded():
    data = module(Planted(num_classes=4, multilabel=True))
    assert (data.num_classes, data.multilabel, data.class_names[3]) == (4, True, "class3")


def test_loader_yields_every_example_once_with_its_index():
    data = module()
    data.setup("fit")
    batches = list(data.train_dataloader())
    assert sorted(torch.cat([batch.index for batch in batches]).tolist()) == list(range(50))
    for batch in batches:
        for row, index in enumerate(batch.index.tolist()):
            assert batch.labels[row] == data.example("train", index)["labels"]
            encoded = data.encoded("train", index)
            assert batch.inputs.input_ids[row, : len(encoded)].tolist() == encoded.input_ids.tolist()


def test_loader_processes_do_not_change_the_batches():
    none, one = module(), module(num_workers=1)
    for data in (none, one):
        data.setup("fit")
    for batch, same in zip(none.train_dataloader(), one.train_dataloader(), strict=True):
        assert torch.equal(batch.inputs.input_ids, same.inputs.input_ids)
        assert torch.equal(batch.rationale.scores, same.rationale.scores)


def test_subset_is_seeded_and_keeps_the_rows_names():
    limited = [module(max_examples={"train": 9}, seed=seed) for seed in (0, 0, 1)]
    chosen = [data.split("train").index.tolist() for data in limited]
    assert chosen[0] == chosen[1] != chosen[2]
    whole = module()
    assert limited[0].example("train", chosen[0][5]) == whole.example("train", chosen[0][5])


def test_subset_to_evaluate_on_is_the_same_for_all_seeds():
    for name in ("validation", "test"):
        chosen = [module(max_examples={name: 3}, seed=seed).split(name).index.tolist() for seed in (0, 1)]
        assert chosen[0] == chosen[1] != [0, 1, 2]


def test_example_left_out_of_the_subset_is_refused():
    data = module(max_examples={"train": 1})
    left_out = 1 - min(data.split("train").index[0], 1)
    with pytest.raises(ValueError, match="left out by max_examples"):
        data.example("train", left_out)


def test_test_loaders_start_with_validation_and_end_with_extra_splits():
    data = module(Rows(GOOD, other=[GOOD]))
    assert data.test_splits == ["validation", "test", "other"]
    data.setup("test")
    assert len(data.test_dataloader()) == 3


def test_extra_test_splits_and_tuning_can_be_switched_off():
    assert module(Rows(GOOD, other=[GOOD]), extra_test_splits=[], tune_on_validation=False).test_splits == ["test"]


@pytest.mark.parametrize("named", ["validation", "test", "other"])
def test_a_split_that_is_named_again_is_tested_once(named):
    data = module(Rows(GOOD, other=[GOOD]), extra_test_splits=[named, "other"])
    assert data.test_splits == ["validation", "test", "other"]


class LoadedOnce(Planted):
    """Planted data that every object loads at most once, and that fail if a second object loads them."""

    loads = 0

    def load(self):
        LoadedOnce.loads += 1
        return super().load()


def test_data_are_loaded_and_encoded_once_for_all_modules(tmp_path):
    first, second = (module(LoadedOnce(num_train=50), cache_dir=str(tmp_path)) for _ in range(2))
    first.setup()
    loads = LoadedOnce.loads
    second.setup()
    assert loads == LoadedOnce.loads == 1
    for name in ("train", "validation", "test"):
        one, other = first.split(name), second.split(name)
        assert one.corpus.folder == other.corpus.folder and one.hash() == other.hash()


def test_summary_reports_truncation_evidence_and_padding():
    data = TextDataModule(Rows(GOOD, GOOD | {"text": "w1", "id": "b"}), VocabularyEncoder(words=95, max_length=4))
    data.setup("fit")
    facts = data.summary()["train"]
    assert facts["examples"] == 2
    assert facts["truncated_fraction"] == 0.5
    assert facts["evidence_kept_fraction"] == 1.0
    assert facts["padding_fraction"] == pytest.approx(1 / 8)


class Recorder(LightningModule):
    """Records which examples each stage saw."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.trained: list[tuple[int, list[int]]] = []  # (epoch, examples of a batch)
        self.validated: list[int] = []
        self.tested: dict[int, list[int]] = {}  # loader -> examples
        self.predicted: list[int] = []

    def training_step(self, batch, batch_idx):
        self.trained.append((self.current_epoch, batch.index.tolist()))
        return self.weight * batch.inputs.token_mask.sum()

    def validation_step(self, batch, batch_idx):
        self.validated += batch.index.tolist()

    def test_step(self, batch, batch_idx, dataloader_idx=0):
        self.tested.setdefault(dataloader_idx, []).extend(batch.index.tolist())

    def predict_step(self, batch, batch_idx):
        self.predicted += batch.index.tolist()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def trainer(**options):
    return Trainer(
        accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0, **options,
    )  # fmt: skip


def test_lightning_reshuffles_every_epoch_and_validates_each():
    recorder, data = Recorder(), module()
    trainer(max_epochs=3).fit(recorder, datamodule=data)
    epochs = [[rows for epoch, rows in recorder.trained if epoch == e] for e in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    for rows in epochs:
        assert sorted(row for batch in rows for row in batch) == list(range(50))
    assert sorted(recorder.validated) == sorted(3 * list(range(11)))


def test_lightning_tests_and_predicts_every_example_once():
    recorder, data = Recorder(), module()
    trainer().test(recorder, datamodule=data, verbose=False)
    trainer().predict(recorder, datamodule=data)
    assert [sorted(recorder.tested[i]) for i in range(2)] == [list(range(11)), list(range(7))]
    assert sorted(recorder.predicted) == list(range(7))


@pytest.mark.filterwarnings("ignore:.*overfit.*")
def test_lightning_can_overfit_on_few_batches():
    recorder, data = Recorder(), module()
    trainer(max_epochs=1, overfit_batches=2, limit_val_batches=0).fit(recorder, datamodule=data)
    assert len(recorder.trained) == 2
