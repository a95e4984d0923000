"""The registry, and what else knows the engines by name: the extras and the builds of benchmarks."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from quantkit.backends.registry import (
    DEPLOYED,
    DEPLOYED_ONNX,
    ENGINES,
    MXNET,
    ONNX_ENGINES,
    ONNXRUNTIME,
    installed_versions,
    unknown_engine,
)
from quantkit.benchmark.builds.recipes import RECIPES
from quantkit.errors import EngineMissing
from tests.processes import environment

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_nothing_of_an_engine_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, quantkit.backends.registry as registry\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "print(*sorted(loaded & {'numpy', *sys.argv[1:]}))\n"
        "[engine.backend() for engine in registry.ENGINES.values()]\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules} & {*sys.argv[1:]}))"
    )
    packages = [engine.package for engine in ENGINES.values()]
    command = [sys.executable, "-c", code, *packages]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_engines_go_by_their_names() -> None:
    assert all(name == engine.name for name, engine in ENGINES.items())
    assert next(iter(ENGINES)) == MXNET.name
    assert {*DEPLOYED} == {MXNET.name, *DEPLOYED_ONNX}
    assert {*ENGINES} - {*DEPLOYED} == {"reference"}
    assert str(unknown_engine("tensorrt", ("a", "b", "auto"))) == (
        "there is no engine 'tensorrt'; choose one of a, b or auto"
    )


@pytest.mark.parametrize("name", ENGINES)
def test_the_extras_that_errors_name_install_the_engine(name: str) -> None:
    engine = ENGINES[name]
    for extra in engine.extras:
        wanted = {re.split(r"[=<>\[]", requirement)[0] for requirement in EXTRAS[extra]}
        assert wanted & {engine.package, f"{engine.package}-mkl"}


@pytest.mark.parametrize("name", DEPLOYED)
def test_an_engine_is_deployed_and_benchmarked_in_the_same_version(name: str) -> None:
    built = {wheel for recipe in RECIPES.values() if recipe.engine == name for wheel in recipe.wheels}
    assert {requirement for extra in ENGINES[name].extras for requirement in EXTRAS[extra]} & built


def test_a_wheel_of_another_name_is_asked_for_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = replace(ONNXRUNTIME, package="quantkit.backends.of_another_wheel")
    module = ModuleType(engine.package)
    monkeypatch.setattr(module, "__version__", "1.2.3", raising=False)
    monkeypatch.setattr(module, "__spec__", ModuleSpec(engine.package, None))
    monkeypatch.setitem(sys.modules, engine.package, module)
    assert installed_versions([engine, replace(engine, package="there_is_none")]) == {engine.name: "1.2.3"}


def test_a_package_that_cannot_be_imported_is_told_of_like_one_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = next(iter(ONNX_ENGINES.values()))
    monkeypatch.setitem(sys.modules, engine.package, None)
    for asked in (engine.library, engine.installed_version):
        with pytest.raises(EngineMissing, match=rf"{engine.title} cannot be used here \(.*\); install it: pip install"):
            asked()
