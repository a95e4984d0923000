from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantkit.benchmark.results.result_files import CELLS, write_cell, write_run
from quantkit.benchmark.results.results import Results
from tests.cli.conftest import Run
from tests.report.showcase import complete, hostile
from tests.report.synthetic import HOST, INT8, NATIVE, results


def stored(given: Results, folder: Path) -> Path:
    (folder / CELLS).mkdir(parents=True)
    write_run(given.run, folder)
    for cell in given.cells:
        write_cell(cell, folder)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return stored(results(batches=(1,), contestants=(NATIVE, INT8)), tmp_path / "results")


def test_a_report_is_written_and_told(run: Run, folder: Path, tmp_path: Path) -> None:
    result = run("report", folder, "--out", "out", "--price-per-hour", "3.06", "--title", "Mine", "--json")
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert all((tmp_path / path).is_file() for path in document["files"])
    assert "<h1>Mine</h1>" in (tmp_path / document["page"]).read_text()
    assert document["runs"][0]["verdicts"][0].startswith("INT8 runs ")
    printed = run("report", folder, "--out", "out")
    assert document["runs"][0]["verdicts"][0] in " ".join(printed.stdout.split())
    assert run("report", folder, "--out", "out", "--quiet").stdout == ""


@pytest.mark.long
def test_everything_that_a_report_can_show(run: Run, tmp_path: Path) -> None:
    for name, given in (("complete", complete()), ("hostile", hostile())):
        result = run("report", stored(given, tmp_path / name), "--out", f"{name}-report")
        assert result.exit_code == 0, result.stderr
        assert "\x1b" not in result.stdout


def test_several_results_of_one_host(run: Run, folder: Path, tmp_path: Path) -> None:
    again = stored(results(title="Again", batches=(1,), contestants=(NATIVE, INT8)), tmp_path / "again")
    document = json.loads(run("report", folder, again, "--out", "out", "--json").stdout)
    assert [each["title"] for each in document["runs"]] == ["Demonstration", "Again"]


def test_hosts_side_by_side_with_their_prices(run: Run, folder: Path, tmp_path: Path) -> None:
    other = stored(results(batches=(1,), contestants=(NATIVE, INT8), host={**HOST, "id": "ffff"}), tmp_path / "other")
    both = ("report", folder, other, "--out", "out", "--across-hosts", "--latency-bound", "1s", "--json")
    result = run(*both, "--price", f"{folder}=4.08", "--price", "other=1.53")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["runs"][0]["title"] == "Across hosts"
    prices = [each["price_per_hour"] for each in json.loads((tmp_path / "out/report.json").read_text())["runs"]]
    assert prices == [4.08, 1.53]
    for wrong in ("4.08", "third=1", "other=much", "other=-1", "other=1_0", "other= 1", "other=\u0661"):
        refused = run(*both, "--price", wrong)
        assert refused.exit_code == 2
        assert "price" in refused.stderr
    twice = run(*both, "--price", "other=1", "--price", f"{other}=2")
    assert twice.exit_code == 2
    assert f"is the second price of {other}; give one" in twice.stderr


def test_the_price_of_two_folders_of_one_name_needs_a_path(run: Run, folder: Path, tmp_path: Path) -> None:
    other = stored(results(contestants=(NATIVE, INT8), host={**HOST, "id": "ffff"}), tmp_path / "other" / folder.name)
    both = ("report", folder, other, "--out", "out", "--across-hosts")
    refused = run(*both, "--price", f"{folder.name}=4.08")
    assert refused.exit_code == 2
    assert f"may be {folder}, {other}; give the path of one" in refused.stderr
    assert run(*both, "--price", f"{folder}=4.08", "--price", f"{other}=1.53").exit_code == 0


def test_what_cannot_be_served_is_refused(run: Run, folder: Path, tmp_path: Path) -> None:
    other = stored(results(host={**HOST, "id": "ffff"}), tmp_path / "other")
    refused = run("report", folder, other, "--out", "out")
    assert refused.exit_code == 2
    assert "0123456789abcdef" in refused.stderr
    assert "ffff" in refused.stderr
    assert not (tmp_path / "out").exists()
    twice = run("report", folder, f"{folder}/../{folder.name}", "--out", "out")
    assert twice.exit_code == 2
    assert "are the same results" in twice.stderr
    assert not (tmp_path / "out").exists()
    assert run("report", tmp_path, "--out", "out").exit_code == 2
    assert run("report", folder, "--out", "out", "--price-per-hour", "nan").exit_code == 2
    assert run("report", "--out", "out").exit_code == 2
