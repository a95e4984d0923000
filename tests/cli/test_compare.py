from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.benchmark.results.results import Network, Results
from quantkit.report.study.words import MARK
from tests.cli.conftest import Run
from tests.cli.test_report import stored
from tests.report import synthetic
from tests.report.synthetic import HOST, INT8, NATIVE, failed, results, served


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
    document = json.loads(run("compare", old, slower, "--fail-below", "0.95", "--json").stdout)
    assert document["regressions"] == 2
    assert [cell["regressed"] for cell in document["cells"]] == [False, True, False, True]


def test_no_regression_ends_with_0(run: Run, old: Path, slower: Path) -> None:
    for command in ([old, slower], [old, slower, "--fail-below", "0.5"], [slower, old, "--fail-below", "0.95"]):
        assert run("compare", *command).exit_code == 0
    document = json.loads(run("compare", old, old, "--metric", "latency", "--json").stdout)
    assert {cell["ratio"] for cell in document["cells"]} == {1.0}
    assert {cell["metric"] for cell in document["cells"]} == {"latency"}


def test_cells_of_one_side_are_named_and_missing_ones_count(run: Run, old: Path, tmp_path: Path) -> None:
    given = made(10.0)
    part = stored(Results(given.run, given.cells[1:]), tmp_path / "part")
    result = run("compare", old, part)
    assert result.exit_code == 0
    assert "only OLD has measured resnet50_v1, batch size 1, native; in NEW it is not part of the run" in result.stderr
    assert "only NEW has measured resnet50_v1, batch size 1, native" in run("compare", part, old).stderr
    strict = run("compare", old, part, "--fail-below", "0.5")
    assert strict.exit_code == 3
    assert "1 cell of OLD has no result in NEW" in strict.stderr
    assert run("compare", part, old, "--fail-below", "0.5").exit_code == 0
    assert run("compare", old, part, "--fail-below", "0.5", "--allow-missing").exit_code == 0
    assert run("compare", old, part, "--allow-missing").exit_code == 2


def test_what_failed_ends_with_3_and_its_reason(run: Run, old: Path, tmp_path: Path) -> None:
    given = made(10.0)
    broken = tuple(failed(cell.network, cell.batch, cell.contestant, "killed by 9") for cell in given.cells)
    for name, cells in (("all", broken), ("one", (*given.cells[:3], broken[3]))):
        new = stored(Results(given.run, cells), tmp_path / name)
        result = run("compare", old, new, "--fail-below", "0.5", "--allow-missing")
        assert result.exit_code == 3
        assert "only OLD has measured resnet50_v1, batch size 8, INT8; in NEW it failed: killed by 9" in result.stderr
    assert run("compare", old, tmp_path / "one").exit_code == 0
    assert run("compare", old, tmp_path / "all").exit_code == 2


def test_what_others_disturbed_is_shown_and_does_not_fail(run: Run, old: Path, tmp_path: Path) -> None:
    given = made(8.0, seed=1)
    cells = tuple(
        replace(cell, rounds=tuple(replace(turn, stolen=cell.batch / 10) for turn in cell.rounds))
        for cell in given.cells
    )
    new = stored(Results(given.run, cells), tmp_path / "noisy")
    result = run("compare", old, new, "--fail-below", "0.95")
    assert result.exit_code == 0
    assert result.stdout.count("unsure: disturbed") == 4
    shown = "Disturbed: in NEW, the hypervisor took 0.10 to 0.80 cores of processor time meanwhile (4 cells)"
    assert shown in result.stdout
    assert "4 cells were disturbed by others and not judged" in result.stderr
    document = json.loads(run("compare", old, new, "--json").stdout)
    assert document["cells"][0]["disturbed"] == ["in NEW, the hypervisor took 0.10 cores of processor time meanwhile"]
    assert document["cells"][0]["verdict"] == "unsure: disturbed"


@pytest.mark.parametrize("scenario", ["throughput", "latency"])
def test_the_table_fits_80_columns(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    names = ("MXNet native, whole machine", "quantkit INT8, whole machine", "quantkit INT8, an instance for each core")
    contestants = [replace(INT8, name=name) for name in names]
    given = results(("a", "b"), (1, 64), contestants, dict.fromkeys(names, 10.0), {}, scenario)
    folder = stored(given, tmp_path / "long")
    lines = run("compare", folder, folder).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(f"  {names[1]}  " in line for line in lines) == 4
    assert sum(line.endswith("not distinguishable") for line in lines) == 12
    assert [line for line in lines if line.endswith(f", {scenario}")] == [f"a, {scenario}", f"b, {scenario}"]


def test_what_an_interval_lacks_is_below_the_table(run: Run, old: Path, tmp_path: Path) -> None:
    given = made(10.0)
    single = tuple(replace(cell, rounds=cell.rounds[:1]) for cell in given.cells)
    new = stored(Results(given.run, single), tmp_path / "single")
    notes = ("do not cover the variation from one run to the next", "OLD or NEW has a single round", "Rates have no")
    for pair, shown in (((old, old), [True, False, False]), ((old, new), [False, True, False])):
        text = run("compare", *pair).stdout
        assert [note in text for note in notes] == shown


def test_rates_have_no_interval(run: Run, tmp_path: Path) -> None:
    def search(int8: float, name: str) -> Path:
        cells = (served("net", NATIVE, 10.0), served("net", INT8, int8))
        served_run = synthetic.run([Network("net", "trained", 1)], (NATIVE, INT8), scenario="server")
        return stored(Results(served_run, cells), tmp_path / name)

    old, new = search(0.0, "old"), search(90.0, "new")
    result = run("compare", new, old, "--fail-below", "0.9")
    assert result.exit_code == 3
    assert "Rates have no interval" in result.stdout
    assert "net, rate" in result.stdout
    document = json.loads(run("compare", old, new, "--json").stdout)
    assert [(cell["ratio"], cell["interval"], cell["verdict"]) for cell in document["cells"]] == [
        (1.0, None, "not distinguishable"),
        (None, None, "faster"),
    ]
    assert run("compare", old, new, "--fail-below", "0.9").exit_code == 0


def test_other_hosts_are_refused(run: Run, old: Path, tmp_path: Path) -> None:
    other = stored(results(host={**HOST, "id": "ffff"}), tmp_path / "other")
    result = run("compare", old, other)
    assert result.exit_code == 2
    assert "different hosts" in result.stderr
    assert run("compare", old, old, "--fail-below", "nan").exit_code == 2


def test_the_help_tells_the_exit_code_and_what_an_interval_lacks(run: Run) -> None:
    text = " ".join(run("compare", "--help").stdout.split())
    assert "Exit code 3" in text
    assert "does not cover the variation from one run to the next" in text


def test_cells_with_warnings_are_marked(run: Run, tmp_path: Path) -> None:
    given = made(10.0)
    few = replace(given.cells[-1], warnings=("few samples: 3 requests in 1 rounds",))
    calm, doubtful = (
        stored(given, tmp_path / "calm"),
        stored(Results(given.run, (*given.cells[:-1], few)), tmp_path / "few"),
    )
    assert MARK not in run("compare", calm, calm).stdout
    result = run("compare", calm, doubtful)
    # The ratio, and the legend.
    assert result.stdout.count(MARK) == 2
    cells = json.loads(run("compare", calm, doubtful, "--json").stdout)["cells"]
    assert [cell["warnings"] for cell in cells if cell["warnings"]] == [["in NEW, few samples: 3 requests in 1 rounds"]]
