"""The direction of imports: layers, packages and modules, and who may import which library."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import quantkit

PACKAGE = Path(quantkit.__file__).parent

# From the top down: a package imports from its own layer and from those below. Within a layer, packages import each
# other in one direction, and so do the files of a package.
LAYERS = (
    "__main__ cli",
    "__init__ api benchmark cluster deployment diagnosis report stages training",
    "bundle evaluation mixed_precision tasks",
    "calibration drift fusion lowering quantization",
    "backends models",
    "data errors extras files formats host ir kinds progress units version",
)

ENGINES = {"mxnet", "gluoncv"}

# Slow to import: only those who really need them should pay, when they do.
SLOW = ENGINES | {
    "onnx",
    "onnxruntime",
    "openvino",
    "PIL",
    "skimage",
    "sklearn",
    "scipy",
    "requests",
    "safetensors",
    "rich",
    "matplotlib",
    "jinja2",
    "pycocotools",
    "distributed",
    "ray",
}

Edges = Mapping[str, Collection[str]]


def imports(tree: ast.AST, outside_functions: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Each import, those for type checkers alone included: the module, and the names taken from it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif outside_functions and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports(ast.Module(node.orelse, []), outside_functions)
        elif not (outside_functions and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))):
            yield from imports(node, outside_functions)


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def trees(package: Path) -> dict[str, ast.Module]:
    """The modules of a package by dotted name without the package's own; ``__init__`` is the package itself."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name or "__init__"] = _parsed(path.read_text(encoding="utf-8"))
    return modules


def edges(package: Path) -> dict[str, set[str]]:
    """What each module imports of the package."""
    modules = trees(package)
    return {name: _targets(package.name, modules, name) for name in modules}


def _targets(root: str, modules: Mapping[str, ast.Module], name: str) -> set[str]:
    wanted = set()
    for module, names in imports(modules[name]):
        assert not module.startswith("."), f"{name} imports {module} relatively"
        if module.split(".")[0] == root:
            inside = module.partition(".")[2]
            submodules = {".".join(filter(None, [inside, each])) for each in names} & modules.keys()
            if not submodules or len(submodules) < len(names):
                submodules.add(inside or "__init__")
            wanted |= submodules
    return wanted


def subpackage(package: Path, module: str) -> str:
    """The folder in which a module lies; modules beside the folders count as folders."""
    inside = module.replace(".", "/")
    return module if (package / inside).is_dir() or "." not in module else module.rpartition(".")[0]


def subpackages(package: Path) -> dict[str, set[str]]:
    """Which folders the modules of each folder import."""
    between: dict[str, set[str]] = {}
    for module, targets in edges(package).items():
        own = subpackage(package, module)
        between.setdefault(own, set()).update({subpackage(package, target) for target in targets} - {own})
    return between


def upward(package: Path) -> list[str]:
    """The imports that go up, and what is in no layer."""
    layer = {name: number for number, names in enumerate(LAYERS) for name in names.split()}
    modules = edges(package)
    unlisted = {name.split(".")[0] for name in modules} - layer.keys()
    return [f"{name} is in no layer" for name in sorted(unlisted)] + [
        f"{name} imports {target}"
        for name in sorted(modules)
        for target in sorted(modules[name])
        if not {name.split(".")[0], target.split(".")[0]} & unlisted
        and layer[target.split(".")[0]] < layer[name.split(".")[0]]
    ]


def circle(graph: Edges) -> list[str]:
    """Names that lead to each other in a circle."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in done:
            for target in sorted(graph.get(name, ())):
                if way := visit(target, [*path, name]):
                    return way
            done.add(name)
        return []

    return next((way for name in sorted(graph) if (way := visit(name, []))), [])


def foreign(package: Path, libraries: set[str], outside_functions: bool, except_in: Collection[str] = ()) -> list[str]:
    """The modules that import one of the libraries, outside the packages and modules of ``except_in``."""
    return [
        f"{name} imports {module}"
        for name, tree in trees(package).items()
        if not any(name == each or name.startswith(f"{each}.") for each in except_in)
        for module, _ in imports(tree, outside_functions)
        if module.split(".")[0] in libraries
    ]


def test_imports_go_down() -> None:
    assert upward(PACKAGE) == []


def test_subpackages_do_not_import_each_other_in_circles() -> None:
    assert circle(subpackages(PACKAGE)) == []


def test_modules_do_not_import_each_other_in_circles() -> None:
    assert circle(edges(PACKAGE)) == []


def test_only_the_mxnet_backend_and_workers_import_engines() -> None:
    allowed = ["backends.mxnet", "benchmark.workers.worker_mxnet"]
    assert foreign(PACKAGE, ENGINES, outside_functions=False, except_in=allowed) == []


def test_only_those_who_write_or_read_onnx_files_import_onnx() -> None:
    allowed = ["formats.onnx", "backends", "bundle.export", "benchmark.workers.peers", "diagnosis.parity"]
    assert foreign(PACKAGE, {"onnx"}, outside_functions=False, except_in=allowed) == []


def test_slow_libraries_are_imported_where_they_are_used() -> None:
    # A base class from rich, in a module that ``test_help_loads_nothing_heavy`` holds to be imported late; and what Ray
    # itself imports.
    allowed = ["cli.console", "deployment.serving.ray_serve"]
    assert foreign(PACKAGE, SLOW, outside_functions=True, except_in=allowed) == []


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package that breaks every rule."""
    files = {
        "__init__.py": "",
        "errors.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy.cli import main\n",
        "stray.py": "",
        "units.py": "from toy import version",
        "files/__init__.py": "",
        "files/late.py": "def late():\n    from toy.fusion import node\n",
        "fusion/__init__.py": "",
        "fusion/node.py": "import toy.fusion.edge\nimport PIL.Image",
        "fusion/edge.py": "def late():\n    import mxnet as mx\n    from toy.fusion.node import x\n",
        "fusion/rules/__init__.py": "",
        "fusion/rules/one.py": "from toy.fusion.fuse import x",
        "fusion/fuse.py": "from toy.fusion.rules import one",
        "backends/__init__.py": "def late():\n    import mxnet\n",
        "cli/__init__.py": "",
        "cli/main.py": "from toy.fusion import node, edge\nfrom toy import errors",
    }
    for name, content in files.items():
        path = tmp_path / "toy" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return tmp_path / "toy"


def test_the_checks_notice(package: Path) -> None:
    assert upward(package) == [
        "stray is in no layer",
        "errors imports cli.main",
        "files.late imports fusion.node",
        "units imports __init__",
    ]
    assert circle(edges(package)) == ["cli.main", "errors", "cli.main"]
    assert circle(subpackages(package)) == ["cli", "errors", "cli"]
    (package / "errors.py").write_text("")
    assert circle(edges(package)) == ["fusion.edge", "fusion.node", "fusion.edge"]
    assert circle(subpackages(package)) == ["fusion", "fusion.rules", "fusion"]
    assert foreign(package, ENGINES, outside_functions=False, except_in=["backends"]) == ["fusion.edge imports mxnet"]
    assert foreign(package, SLOW, outside_functions=True) == ["fusion.node imports PIL.Image"]
