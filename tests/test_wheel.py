"""What the wheel holds: the package and the data that it reads; no results and no scripts."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from quantkit.benchmark.suites.suite import shipped_suites
from tests.wheel import ROOT, built_wheel

_MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_it_is_the_package_and_data_that_ships(names: set[str]) -> None:
    package = ROOT / "quantkit"
    written = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    own = {name for name in names if not name.startswith("quantkit/shipped/")}
    assert own == {str(path.relative_to(ROOT)) for path in written}


def test_type_checkers_are_told_that_it_is_typed(names: set[str]) -> None:
    assert "quantkit/py.typed" in names


def test_the_data_is_all_that_is_read_and_nothing_else(names: set[str]) -> None:
    shipped = {name.removeprefix("quantkit/shipped/") for name in names if name.startswith("quantkit/shipped/")}
    read = [path for path in (ROOT / "models").iterdir() if path.suffix in (".toml", ".json", ".params")]
    read += [path for path in (ROOT / "calibration").iterdir() if path.suffix in (".toml", ".json")]
    read += [
        *shipped_suites().values(),
        ROOT / "benchmarks" / "accuracy.toml",
        ROOT / "benchmarks" / "published.toml",
        ROOT / "models" / "zoo" / "accuracy.toml",
    ]
    assert shipped == {str(path.relative_to(ROOT)) for path in read}


def test_no_results_and_no_scripts_are_in_it(names: set[str]) -> None:
    assert not [name for name in names if name.startswith("quantkit/shipped/benchmarks/results/")]
    assert not [name for name in names if name.endswith(".sh")]
    assert not [name for name in names if name.startswith("quantkit/shipped/") and name.endswith(".py")]


def test_it_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 10 * _MEBIBYTE


def test_no_part_of_the_library_names_a_script_of_the_benchmarks() -> None:
    scripts = [path.name for path in (ROOT / "benchmarks").glob("*.py")]
    for path in (ROOT / "quantkit").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"benchmarks/\w+\.py", text), path
        assert not [name for name in scripts if f'"{name}"' in text], path
