"""The layers of the package: what each may import, how long a file may be."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "lightning_xai"

# layer -> (packages of ours it may import, third-party packages beyond torch and the standard library)
ALLOWED = {
    "types": (set(), set()),
    "store": ({"types"}, {"numpy"}),
    "functional": ({"types", "functional"}, {"numpy", "PIL", "matplotlib"}),
    "models": ({"types", "functional"}, {"transformers", "safetensors", "omegaconf"}),
    "data": (
        {"types", "functional", "store"},
        {"datasets", "huggingface_hub", "tokenizers", "transformers", "lightning", "numpy"},
    ),
    "attributions": ({"types", "functional", "store", "models"}, {"captum", "numpy"}),
    "metrics": ({"types", "functional", "store"}, {"torchmetrics", "numpy"}),
    "objectives": ({"types", "functional", "models", "attributions", "metrics.classification"}, {"lightning"}),
    "callbacks": ({"types", "functional", "store", "attributions", "metrics"}, {"lightning", "numpy", "pandas"}),
}
SIBLINGS = {"models", "attributions", "metrics", "objectives", "callbacks"}  # siblings import only their base
COMPOSITES = {
    "attributions/att_in_grad.py", "attributions/transformed.py", "attributions/cached.py",
    "attributions/sequential_integrated_gradients.py", "callbacks/stability.py",
}  # fmt: skip
STDLIB_AND_TORCH = {"torch", "__future__"}

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file_imports_only_what_its_layer_may(path):
    import sys

    layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if layer not in ALLOWED:  # cli and the commands beside it may import anything below
        return
    ours, theirs = ALLOWED[layer]
    relative = str(path.relative_to(PACKAGE))
    for name in imports(path):
        top = name.split(".")[0]
        if top != "lightning_xai":
            assert top in sys.stdlib_module_names | STDLIB_AND_TORCH | theirs, f"{relative} imports {name}"
            assert not (top == "lightning" and layer == "data" and path.name != "module.py"), f"{relative}: {name}"
            continue
        inner = name.removeprefix("lightning_xai.")
        package = inner.split(".")[0]
        if package == layer and layer in SIBLINGS:
            shared = {"objectives.schedules", "models.huggingface", "models.encoder_layers", "attributions.coalitions"}
            shared |= {
                "callbacks.stages",
                "callbacks.chain_callback",
                "callbacks.erasure_pass",
                "callbacks.racu_report",
            }
            allowed = inner.endswith(".base") or inner in shared or relative in COMPOSITES
            assert allowed, f"{relative} imports its sibling {name}"
        elif package != layer:
            assert package in ours or inner in ours, f"{relative} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file_has_at_most_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


def test_init_files_are_empty():
    assert [str(p) for p in PACKAGE.rglob("__init__.py") if p.read_text().strip()] == []
