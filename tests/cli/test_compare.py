from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantkit.benchmark.results import Results
from tests.cli.conftest import Run
from tests.cli.test_report import stored
from tests.report.synthetic import HOST, INT8, NATIVE, results


def made(int8: float, seed: int = 0) -> Results:
    return results(batches=(1, 8), contestants=(NATIVE, INT8), speed={"native": 1.0, "INT8": int8}, seed=seed)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return stored(made(10.0), tmp_path / "old")


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    return stored(made(8.0, seed=1), tmp_path / "slower")


def test_a_regression_ends_with_3_and_is_named(run: Run, old: Path, slower: Path) -> None:
    result = run("compare", old, slower, "--fail-below", "0.95")
    assert result.exit_code == 3
    assert result.stderr.count("slower than 0.95 times OLD") == 2
    assert "resnet50_v1, batch size 8, INT8" in result.stderr
    assert "REGRESSED" in result.stdout
    found = json.loads(run("compare", old, slower, "--fail-below", "0.95", "--json").stdout)
    assert found["regressions"] == 2
    assert [cell["regressed"] for cell in found["cells"]] == [False, True, False, True]


def test_no_regression_ends_with_0(run: Run, old: Path, slower: Path) -> None:
    for command in ([old, slower], [old, slower, "--fail-below", "0.5"], [slower, old, "--fail-below", "0.95"]):
        assert run("compare", *command).exit_code == 0
    found = json.loads(run("compare", old, old, "--metric", "latency", "--json").stdout)
    assert {cell["ratio"]["value"] for cell in found["cells"]} == {1.0}
    assert {cell["metric"] for cell in found["cells"]} == {"latency"}


def test_cells_of_one_side_are_named(run: Run, old: Path, tmp_path: Path) -> None:
    given = made(10.0)
    part = stored(Results(given.run, given.cells[1:]), tmp_path / "part")
    result = run("compare", old, part)
    assert result.exit_code == 0
    assert "only OLD has measured resnet50_v1, batch size 1, native; in NEW it is not part of the run" in result.stderr
    assert "only NEW has measured resnet50_v1, batch size 1, native" in run("compare", part, old).stderr


def test_other_hosts_are_refused(run: Run, old: Path, tmp_path: Path) -> None:
    other = stored(results(host={**HOST, "id": "ffff"}), tmp_path / "other")
    result = run("compare", old, other)
    assert result.exit_code == 2
    assert "different hosts" in result.stderr
    assert run("compare", old, old, "--fail-below", "nan").exit_code == 2


def test_the_exit_code_is_in_the_help(run: Run) -> None:
    assert "Exit code 3" in run("compare", "--help").stdout
