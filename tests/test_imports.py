"""The direction of imports: a room may use the rooms above it in the table, and only those named there."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import quantkit

PACKAGE = Path(quantkit.__file__).parent

# Each room (subpackage or module of quantkit) and the rooms that it may import. Only rooms that stand
# before it can be named, so there are no cycles between rooms.
ROOMS = {
    "errors": "",
    "extras": "errors",
    "contained": "errors",
    "current_folder": "",
    "temporary": "",
    "timing": "",
    "progress": "",
    "text_files": "",
    "files": "errors temporary text_files",
    "folders": "errors temporary files",
    "formats": "errors text_files",
    "host": "errors extras files",
    "graph": "errors text_files files",
    "backends": "errors host graph",
    "engine": "errors current_folder timing progress text_files files folders host graph backends",
    "data": "errors extras text_files files formats",
    "onnx_import": "errors extras text_files formats graph",
    "models": "errors contained text_files files formats graph engine data onnx_import",
    "fusion": "errors graph engine",
    "calibration": "errors text_files files formats graph engine data",
    "quantization": "errors graph fusion calibration",
    "units": "",
    "evaluation": "errors extras timing graph engine data units",
    "emission": "errors extras graph fusion calibration quantization",
    "recovery": "errors extras progress graph engine fusion calibration quantization emission",
    "stages": "errors progress graph engine data models fusion calibration quantization evaluation emission recovery",
    "explain": "errors fusion quantization",
    "bundle": "errors contained temporary text_files files folders formats graph engine data models fusion "
    "calibration quantization evaluation emission recovery stages explain",
    "export": "errors files graph engine models quantization emission bundle",
    "pipeline": "errors extras progress files graph models calibration quantization evaluation emission recovery "
    "stages bundle export",
    "search": "errors progress text_files files host graph engine data models fusion calibration quantization "
    "evaluation emission recovery stages bundle pipeline",
    "profile": "errors graph engine",
    "benchmark": "errors extras contained current_folder temporary timing progress text_files files folders formats "
    "host backends",
    "report": "errors extras progress files folders host backends units benchmark",
    "analysis": "errors progress folders host graph data models fusion calibration quantization units evaluation "
    "emission recovery stages bundle report",
    "workloads": "errors contained progress text_files files folders formats host graph engine data models fusion "
    "calibration quantization units evaluation emission recovery stages bundle export pipeline benchmark",
    "measurement": "errors progress host benchmark workloads",
    "runtimes": "errors extras text_files folders host backends",
    "parity": "errors extras progress graph backends engine fusion quantization evaluation emission bundle runtimes",
    "deployment": "errors contained timing text_files files host backends bundle",
    "summary": "graph engine evaluation stages bundle pipeline",
    "predict": "errors host graph data bundle deployment",
    "loading": "errors models evaluation bundle predict",
    "cli": "errors temporary progress files folders host graph backends engine data models fusion calibration "
    "quantization units evaluation emission recovery stages explain bundle export pipeline search profile "
    "benchmark report analysis workloads measurement parity summary predict loading",
    "__main__": "current_folder cli",
}

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
}


def imports(tree: ast.AST, outside_functions: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Each import that is carried out at run time: the module, and the names taken from it."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports(ast.Module(node.orelse, []), outside_functions)
        elif not (outside_functions and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))):
            yield from imports(node, outside_functions)


def trees(package: Path) -> dict[str, ast.Module]:
    """The modules of a package by dotted name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def targets(modules: dict[str, ast.Module], name: str) -> set[str]:
    """The modules of the package that a module imports."""
    root = name.split(".")[0]
    found = set()
    for module, names in imports(modules[name]):
        assert not module.startswith("."), f"{name} imports {module} relatively"
        if module.split(".")[0] == root:
            submodules = {f"{module}.{each}" for each in names} & modules.keys()
            found |= submodules if submodules and len(submodules) == len(names) else submodules | {module}
    return found


def room(module: str) -> str:
    return [*module.split("."), ""][1]


def forbidden(package: Path) -> list[str]:
    """The imports that the table does not allow; of the package itself only its version may be taken."""
    modules = trees(package)
    found = []
    for name in modules:
        own = room(name)
        # The package itself has no row; it turns the telemetry of engines off.
        allowed = {own, "", *ROOMS.get(own, "host").split()}
        wrong = sorted(target for target in targets(modules, name) if room(target) not in allowed)
        found += [f"{name} imports {target}" for target in wrong]
    return found


def foreign(package: Path, libraries: set[str], outside_functions: bool, except_in: Sequence[str] = ()) -> list[str]:
    """The modules that import one of the libraries, outside the rooms and modules of ``except_in``."""
    return [
        f"{name} imports {module}"
        for name, tree in trees(package).items()
        if room(name) not in except_in and name.partition(".")[2] not in except_in
        for module, _ in imports(tree, outside_functions)
        if module.split(".")[0] in libraries
    ]


def cycle(package: Path) -> list[str]:
    """Modules that import each other in a circle, imports inside functions included."""
    modules = trees(package)
    edges = {name: targets(modules, name) - {package.name} for name in modules}
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in done:
            for target in sorted(edges[name]):
                if found := visit(target, [*path, name]):
                    return found
            done.add(name)
        return []

    return next((found for name in sorted(edges) if (found := visit(name, []))), [])


def test_the_table_has_every_room_and_points_one_way() -> None:
    assert {room(name) for name in trees(PACKAGE)} - {""} == set(ROOMS)
    before: set[str] = set()
    for name, allowed in ROOMS.items():
        assert set(allowed.split()) <= before, name
        before.add(name)


def test_rooms_import_only_what_the_table_allows() -> None:
    assert forbidden(PACKAGE) == []


def test_modules_do_not_import_each_other_in_circles() -> None:
    assert cycle(PACKAGE) == []


def test_only_the_engine_room_imports_engines() -> None:
    allowed = ["engine", "benchmark.worker_mxnet"]
    assert foreign(PACKAGE, ENGINES, outside_functions=False, except_in=allowed) == []


def test_only_those_who_write_or_read_onnx_files_import_onnx() -> None:
    allowed = ["benchmark.peers", "emission.onnx_model", "onnx_import", "runtimes"]
    assert foreign(PACKAGE, {"onnx"}, outside_functions=False, except_in=allowed) == []


def test_slow_libraries_are_imported_where_they_are_used() -> None:
    # A class of rich's to stand on, in a module that ``test_help_loads_nothing_heavy`` holds to be imported late.
    assert foreign(PACKAGE, SLOW, outside_functions=True, except_in=["cli.console"]) == []


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A small package that breaks every rule."""
    files = {
        "__init__.py": "",
        "errors.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy.cli import main\n",
        "files.py": "def late():\n    from toy.graph import node\n",
        "graph/__init__.py": "",
        "graph/node.py": "import toy.graph.edge\nimport PIL.Image",
        "graph/edge.py": "def late():\n    import mxnet as mx\n    from toy.graph.node import x\n",
        "engine/__init__.py": "def late():\n    import mxnet\n",
        "cli/__init__.py": "",
        "cli/main.py": "from toy.graph import node, edge\nfrom toy import errors",
    }
    for name, content in files.items():
        path = tmp_path / "toy" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return tmp_path / "toy"


def test_the_checks_notice(package: Path) -> None:
    assert forbidden(package) == ["toy.files imports toy.graph.node"]
    assert cycle(package) == ["toy.graph.edge", "toy.graph.node", "toy.graph.edge"]
    assert foreign(package, ENGINES, outside_functions=False, except_in=["engine"]) == ["toy.graph.edge imports mxnet"]
    assert foreign(package, SLOW, outside_functions=True) == ["toy.graph.node imports PIL.Image"]
