"""Calibration tables on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantkit.calibration import table
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable, read_table, write_table
from quantkit.errors import UserError

TABLE = CalibrationTable(
    method="percentile:99.9",
    samples=10,
    data_name="photos/ (é)",
    ranges={"b_output": Range(-0.1, 1 / 3), "a_output": Range(0.0, 1e-30), "zero": Range(0.0, 0.0)},
    graph_sha256="0" * 64,
    data_sha256="f" * 64,
)


def altered(path: Path, **changes: Any) -> Path:
    """The file of TABLE with some of its fields replaced; None leaves the field out."""
    write_table(TABLE, path)
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return path


def test_comes_back_as_it_was(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "t.json")
    assert read_table(tmp_path / "t.json") == TABLE


def test_what_was_left_out_is_told_only_where_something_was(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "t.json")
    assert "left_out" not in (tmp_path / "t.json").read_text()
    fewer = replace(TABLE, left_out=2)
    write_table(fewer, tmp_path / "t.json")
    assert read_table(tmp_path / "t.json") == fewer


@given(st.floats(-3e38, 3e38), st.floats(-3e38, 3e38))
def test_ranges_keep_every_bit(tmp_path_factory: pytest.TempPathFactory, one: float, other: float) -> None:
    path = tmp_path_factory.getbasetemp() / "bits.json"
    bounds = Range(min(one, other), max(one, other))
    write_table(CalibrationTable("mse", 1, "x", {"t": bounds}, "0" * 64, "0" * 64), path)
    assert read_table(path).ranges["t"] == bounds


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    shuffled = dict(reversed(list(TABLE.ranges.items())))
    write_table(TABLE, tmp_path / "one")
    write_table(CalibrationTable(**{**vars(TABLE), "ranges": shuffled}), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "version 2.*reads version 1"),
        ({"version": None}, "no 'version'"),
        ({"format": None}, "no 'format'"),
        ({"format": "other"}, "format"),
        ({"method": None}, "method"),
        ({"samples": 0}, "samples"),
        ({"samples": "10"}, "samples"),
        ({"graph_sha256": "xyz"}, "graph_sha256"),
        ({"ranges": None}, "ranges"),
        ({"ranges": {"a": [0.0]}}, r"ranges\.a"),
        ({"ranges": {"a": [0.0, "1"]}}, r"ranges\.a"),
        ({"ranges": {"a": [0.0, float("nan")]}}, "not a finite number"),
        ({"ranges": {"a": [0.0, float("inf")]}}, "not a finite number"),
        ({"ranges": {"a": [0.0, 3.5e38]}}, "less than or equal to 3402"),
        ({"ranges": {"a": [-3.5e38, 0.0]}}, "greater than or equal to -3402"),
        ({"ranges": {"a": [1.0, 0.0]}}, "impossible range"),
        ({"left_out": -1}, "left_out"),
        ({"left_out": "2"}, "left_out"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_refuses(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_table(altered(tmp_path / "t.json", **changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 2}, "has version 2, but this quantkit reads version 1"),
        ({"version": None, "format": None}, "has no 'format'"),
        ({"version": None}, "has no 'version'"),
        ({"samples": 0}, "is not valid at 'samples': Input should be greater than or equal to 1"),
        ({"ranges": {"a": [0.0]}}, r"is not valid at 'ranges\.a': .*"),
        ({"ranges": {"a": [1.0, 0.0]}}, r"holds an impossible range: range \[1.0, 0.0\] is empty.*"),
    ],
)
def test_refusals_name_the_file_the_place_and_the_remedy(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    path = altered(tmp_path / "t.json", **changes)
    with pytest.raises(UserError, match=f"^calibration table {path} {reason}; calibrate again or give another table$"):
        read_table(path)


def test_the_file_is_readable(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "t.json")
    lines = (tmp_path / "t.json").read_text(encoding="utf-8").splitlines(keepends=True)
    assert ' "data_name": "photos/ (é)",\n' in lines
    assert all(line.endswith("\n") for line in lines)
    names = [line.split('"')[1] for line in lines if line.startswith(' "')]
    assert names == sorted(names)


def test_refuses_a_tensor_that_occurs_twice(tmp_path: Path) -> None:
    write_table(TABLE, tmp_path / "t.json")
    text = (tmp_path / "t.json").read_text()
    (tmp_path / "t.json").write_text(text.replace('"zero"', '"a_output"'))
    with pytest.raises(UserError, match="'a_output' occurs twice"):
        read_table(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", r"is not valid JSON \(.*\)"),
        ("[]", "is not a JSON object"),
        ("{", "is not valid JSON"),
        ("\x00\xff", "is not valid JSON"),
    ],
)
def test_refuses_other_files(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=rf"^calibration table .*t\.json {reason}"):
        read_table(path)


def test_refuses_files_beyond_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json"
    write_table(TABLE, path)
    monkeypatch.setattr(table, "_LARGEST_FILE", path.stat().st_size)
    assert read_table(path) == TABLE
    monkeypatch.setattr(table, "_LARGEST_FILE", path.stat().st_size - 1)
    with pytest.raises(UserError, match=r"^cannot read calibration table .*t\.json: it has more than \d+ bytes$"):
        read_table(path)


def test_paths_may_be_texts(tmp_path: Path) -> None:
    write_table(TABLE, str(tmp_path / "table.json"))
    assert read_table(str(tmp_path / "table.json")) == read_table(tmp_path / "table.json")


def test_only_tables_are_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="table is of type str; give a CalibrationTable, which calibrate"):
        write_table("table.json", tmp_path / "table.json")  # type: ignore[arg-type]


def test_refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^cannot read calibration table .*absent\.json: No such file or directory$"):
        read_table(tmp_path / "absent.json")


def test_writes_nothing_that_it_would_not_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="data_sha256"):
        write_table(CalibrationTable("mse", 1, "x", {}, "0" * 64, ""), tmp_path / "t.json")
    assert not list(tmp_path.iterdir())
