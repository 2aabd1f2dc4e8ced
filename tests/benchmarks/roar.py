"""Cost of a ROAR chain in proportion to its trainings and attributions alone; the ratio should be at most 1.05.

    python tests/benchmarks/roar.py [--documents 4096]

The chain runs as a command, and each of its stages includes start-up, test, files and erasures. Its time is divided by
the number of stages times the time of a bare Trainer.fit of the same network and data and of one attribution of all
splits. That time is measured before and after the chain: if the two differ much, other work has slowed the machine. All
times are processor times on one thread. The fixed cost of a stage, in seconds, is the cost that longer stages share.
"""

import argparse
import contextlib
import io
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from lightning import Trainer, seed_everything

from lightning_xai.attributions.gradient import Gradient
from lightning_xai.commands.discovery import import_all
from lightning_xai.commands.main import main
from lightning_xai.data.module import TextDataModule
from lightning_xai.data.sources.planted import Planted
from lightning_xai.data.vocabulary import VocabularyEncoder
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.objectives.supervised import Supervised

BERT = {
    "model_type": "bert", "vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 128, "max_position_embeddings": 128, "pad_token_id": 0,
}  # fmt: skip
EPOCHS, BATCH_SIZE, EVAL_BATCH_SIZE = 5, 32, 64
PERCENTAGES = [30, 60]


def source(documents: int) -> dict[str, Any]:
    return {"num_train": documents, "num_validation": documents // 8, "num_test": documents // 8}


def chain_config(documents: int) -> dict:
    prefix = "lightning_xai"
    return {
        "model": {
            "class_path": f"{prefix}.objectives.supervised.Supervised",
            "init_args": {
                "network": {"class_path": f"{prefix}.models.hf_classifier.HFClassifier", "init_args": {"config": BERT}},
                "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 1e-3}},
            },
        },
        "data": {
            "class_path": f"{prefix}.data.module.TextDataModule",
            "init_args": {
                "source": {"class_path": f"{prefix}.data.sources.planted.Planted", "init_args": source(documents)},
                "encoder": {"class_path": f"{prefix}.data.vocabulary.VocabularyEncoder", "init_args": {"words": 95}},
                "batch_size": BATCH_SIZE,
                "eval_batch_size": EVAL_BATCH_SIZE,
            },
        },
        "trainer": {
            "accelerator": "cpu", "max_epochs": EPOCHS, "enable_progress_bar": False,
            "callbacks": [
                {
                    "class_path": f"{prefix}.chains.roar.ROAR",
                    "init_args": {
                        "methods": {"gradient": {"class_path": f"{prefix}.attributions.gradient.Gradient"}},
                        "percentages": PERCENTAGES,
                    },
                }
            ],
        },
    }  # fmt: skip


def training_and_sweep(documents: int) -> tuple[float, float]:
    """Returns processor seconds of a bare fit and of the gradient of every example."""
    seed_everything(0, verbose=False)
    data = TextDataModule(
        Planted(**source(documents)),
        VocabularyEncoder(words=95),
        batch_size=BATCH_SIZE,
        eval_batch_size=EVAL_BATCH_SIZE,
    )
    objective = Supervised(HFClassifier(config=BERT), optimizer=lambda p: torch.optim.AdamW(p, lr=1e-3))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            accelerator="cpu", max_epochs=EPOCHS, logger=False, enable_progress_bar=False, default_root_dir=folder,
            enable_model_summary=False, num_sanity_val_steps=0,
        )  # fmt: skip
        began = time.process_time()
        trainer.fit(objective, datamodule=data)
    trained = time.process_time()
    for split in ("train", "validation", "test"):
        for batch in data.ordered_dataloader(split):
            Gradient().attribute(objective.network, batch.inputs, batch.labels.unsqueeze(1))
    return trained - began, time.process_time() - trained


def whole_chain(documents: int) -> tuple[float, int]:
    """Returns processor seconds of the chain and its number of stages."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "roar.json"
        config.write_text(json.dumps(chain_config(documents)))
        printed = io.StringIO()
        began = time.process_time()
        with contextlib.redirect_stdout(printed):
            main(["fit", "--config", str(config), "--runs_dir", f"{folder}/runs"])
        return time.process_time() - began, printed.getvalue().count("ROAR stage")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=4096, help="training documents")
    documents = parser.parse_args().documents
    torch.set_num_threads(1)
    import_all()
    before = training_and_sweep(documents)
    total, num_stages = whole_chain(documents)
    after = training_and_sweep(documents)
    floor = num_stages * (sum(before) + sum(after)) / 2
    ratio, fixed = total / floor, (total - floor) / num_stages
    for name, (training, sweep) in {"before": before, "after": after}.items():
        print(f"{name}: training {training:.1f} s, sweep {sweep:.1f} s")
    print(f"chain of {num_stages} stages: {total:.1f} s, of which trainings and sweeps {floor:.1f} s")
    print(f"ratio {ratio:.3f} (bar 1.05), {fixed:+.2f} s a stage")
