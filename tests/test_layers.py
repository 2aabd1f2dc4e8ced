"""The layers of the package: what each room may import, how long a file may be."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "lightning_xai"

# room -> (rooms below that it may import, third-party packages beyond torch and the standard library)
BELOW_MODELS = {"types", "runs", "functional"}
ALLOWED = {
    "types": (set(), set()),
    "runs": ({"types"}, {"numpy", "pandas", "pyarrow"}),
    "functional": ({"types"}, {"numpy"}),
    "search": ({"runs", "functional"}, {"numpy"}),  # optuna is imported when a search begins
    "models": (BELOW_MODELS, {"transformers", "omegaconf", "yaml"}),  # yaml for the errors of damaged files
    "data": (BELOW_MODELS, {"datasets", "huggingface_hub", "tokenizers", "transformers", "numpy", "pyarrow"}),
    "metrics": (BELOW_MODELS, {"torchmetrics", "numpy"}),
    "attributions": (BELOW_MODELS | {"models"}, {"captum", "numpy"}),
    "objectives": (
        BELOW_MODELS
        | {
            "models",
            "attributions",
            "metrics.base",
            "metrics.classification",
            "metrics.example_mean",
            "metrics.predict_once",
        },
        {"lightning"},
    ),
    "report": (BELOW_MODELS | {"metrics"}, {"numpy", "pandas", "matplotlib", "PIL", "regex", "scipy"}),
    "callbacks": (BELOW_MODELS | {"models", "attributions", "metrics", "report"}, {"lightning", "numpy", "pandas"}),
    "chains": (
        BELOW_MODELS
        | {
            "models",
            "data",
            "attributions",
            "metrics",
            "report",
            "callbacks.base",
            "callbacks.preflight.preflight_run",
        },
        {"lightning", "numpy", "pandas"},
    ),
    "api": (None, {"pandas"}),  # any room; what `import lightning_xai` offers
    "commands": (
        None,
        {"lightning", "jsonargparse", "omegaconf", "numpy", "pandas", "tensorboard", "yaml"},
    ),  # any room
}
# rooms whose files are alternatives to one another, with the base of the alternatives
ALTERNATIVES = {
    "models": "Classifier",
    "attributions": "AttributionMethod",
    "metrics": "AttributionMetric",
    "objectives": "Objective",
    "callbacks": "Callback",
}
# files that import an alternative of their room, since they are composed of it
COMPOSITES = {
    "attributions/given.py",
    "attributions/sequential_integrated_gradients.py",
    "objectives/constrained.py",
    "objectives/terms/laws.py",
}

FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            found.append(node.module)
    return found


def alternatives_in(module_name: str, base: str) -> list[str]:
    """Returns the classes of a module that can be used in place of one another: the concrete subclasses of `base`."""
    module = importlib.import_module(module_name)
    classes = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module_name]
    return [
        cls.__name__
        for cls in classes
        if not inspect.isabstract(cls) and base in (parent.__name__ for parent in cls.__mro__[1:])
    ]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_room_and_top_level_file_is_in_the_table():
    assert {room_of(path) for path in FILES} == set(ALLOWED)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file_imports_only_what_its_room_may(path):
    room, relative = room_of(path), str(path.relative_to(PACKAGE))
    ours, theirs = ALLOWED[room]
    if relative == "data/module.py":
        theirs = theirs | {"lightning"}
    if relative == "functional/model_files/gguf.py":  # converts for models and data, which import no sibling
        theirs = theirs | {"transformers"}
    for name in imports(path):
        top = name.split(".")[0]
        if top != "lightning_xai":
            assert top in sys.stdlib_module_names | {"torch", "__future__"} | theirs, f"{relative} imports {name}"
            continue
        inner = name.removeprefix("lightning_xai.")
        if inner.split(".")[0] != room:
            allowed = ours is None or inner.split(".")[0] in ours or inner in ours
            assert allowed, f"{relative} imports {name}"
        elif room in ALTERNATIVES and relative not in COMPOSITES:
            assert not alternatives_in(name, ALTERNATIVES[room]), f"{relative} imports its alternative {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file_has_at_most_300_lines(path):
    assert len(path.read_text().splitlines()) <= 300


def test_files_of_tests_have_at_most_300_lines():
    lengths = {str(path): len(path.read_text().splitlines()) for path in Path(__file__).parent.rglob("*.py")}
    assert {path: length for path, length in lengths.items() if length > 300} == {}


@pytest.mark.slow
def test_a_public_class_shares_its_name_with_no_other():
    files: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_init_files_are_empty_except_that_of_the_package():
    top = PACKAGE / "__init__.py"
    assert [str(p) for p in PACKAGE.rglob("__init__.py") if p != top and p.read_text().strip()] == []
    assert {name for name in imports(top)} == {"lightning_xai"}  # api, at first use


def test_importing_the_package_imports_nothing_else():
    code = "import sys, lightning_xai; print([name for name in sys.modules if name in ('torch', 'pandas')])"
    printed = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True)
    assert printed.stdout == "[]\n"
