from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.errors import QuantkitError, UserError
from quantkit.report.write import make_report, write_report
from tests.report.synthetic import INT8, NATIVE, results

SMALL = results(batches=(1,), contestants=(NATIVE, INT8))


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_report_is_a_folder_of_files(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report"
    told: list[str] = []
    written = write_report(make_report([SMALL], "My title", tell=told.append), out)
    figures = {
        f"figures/{name}.{kind}" for name in ("throughput", "latency", "distribution") for kind in ("png", "svg")
    }
    assert names(out) == {"index.html", "report.md", "report.json", "cells.csv"} | figures
    assert {str(path.relative_to(out)) for path in written} == names(out)
    assert (out / "figures" / "throughput.png").read_bytes().startswith(b"\x89PNG")
    assert "<title>My title</title>" in (out / "index.html").read_text()
    assert told


def test_an_earlier_report_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "report"
    write_report(make_report([SMALL, SMALL]), out)
    assert any(name.startswith("figures/1/") for name in names(out))
    write_report(make_report([SMALL]), out)
    assert not any(name.startswith("figures/1/") for name in names(out))
    (out / "figures" / "mine.png").write_bytes(b"mine")
    with pytest.raises(UserError, match=r"holds 'figures/mine.png', which is not part of a report"):
        write_report(make_report([SMALL]), out)
    assert (out / "figures" / "mine.png").read_bytes() == b"mine"


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_report(make_report([SMALL]), tmp_path / name)
    assert names(tmp_path / "a") == names(tmp_path / "b")
    for name in names(tmp_path / "a"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_what_is_no_run_or_no_report_is_refused(tmp_path: Path) -> None:
    for runs in ([], None, "results", SMALL):
        with pytest.raises(UserError, match="give Results, as run_benchmark"):
            make_report(runs)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="a run is of type str; give a Results, which run_benchmark"):
        make_report(["results"])  # type: ignore[list-item]
    with pytest.raises(UserError, match="report is of type Results; give a Report, which make_report"):
        write_report(SMALL, tmp_path / "report")  # type: ignore[arg-type]
    assert not (tmp_path / "report").exists()


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = make_report([SMALL])
    with pytest.raises(UserError, match="exists and is not a directory"):
        write_report(made, tmp_path / "file")
    with pytest.raises(QuantkitError, match="Not a directory"):
        write_report(made, tmp_path / "file" / "below")
