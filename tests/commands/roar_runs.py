"""A tiny ROAR chain of six runs: its configuration, and the erasures that it writes."""

from pathlib import Path

from lightning_xai.runs.stores.store import RaggedStore
from tests.commands.conftest import planted, save, tiny_config

NAMES = ["all/100", "random/040", "random/080", "gradient/040", "gradient/080"]


def roar(**options) -> dict:
    methods = {"gradient": {"class_path": "lightning_xai.attributions.gradient.Gradient"}}
    init_args = {"methods": methods, "percentages": [40, 80]} | options
    return {"class_path": "lightning_xai.chains.roar.ROAR", "init_args": init_args}


def roar_config(folder: Path, *, lr: float = 5e-3, **options) -> str:
    config = tiny_config(callbacks=[roar(**options)]) | {"data": planted(num_train=24, num_validation=8)}
    config["model"]["init_args"]["optimizer"]["init_args"]["lr"] = lr
    return save(config, folder / "roar.json")


def erased(root: Path, name: str) -> dict[str, list]:
    stores = {split: RaggedStore(root / "erasures" / name / split) for split in ("train", "validation", "test")}
    return {split: [store.get(*key).tolist() for key in store.keys()] for split, store in stores.items()}
