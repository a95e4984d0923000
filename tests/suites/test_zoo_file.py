"""The rows of the zoo in OUT.json: an ended run goes on, and several runs share the file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quantkit.errors import UserError
from quantkit.models.catalogue import Entry
from tests.suites.zoo_rows_made import quantized


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The networks that were measured, in turn; their rows say so."""
    import zoo

    names: list[str] = []

    def fitting(entry: Entry, minutes: float, gigabytes: float) -> dict[str, Any]:
        assert (minutes, gigabytes) == (2.0, 3.0)
        names.append(entry.name)
        return quantized(network=entry.name, engines={}, seconds=float(len(names)))

    monkeypatch.setattr(zoo, "fitting", fitting)
    return names


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., dict[str, dict[str, Any]]]:
    """Run the script, into the same file each time; the rows that are there then."""
    import zoo

    def measure(*options: str) -> dict[str, dict[str, Any]]:
        always = ["--minutes", "2", "--gigabytes", "3", "--out", str(tmp_path / "r")]
        monkeypatch.setattr(sys, "argv", ["zoo.py", *always, *options])
        zoo.main()
        return zoo.known_rows(tmp_path / "r.json")

    return measure


def test_what_is_known_is_kept(engine: None, asked: list[str], measure: Callable[..., dict[str, Any]]) -> None:
    measure("--network=squeezenet1.0")
    rows = measure("--network=squeezenet1")
    assert asked == list(rows) == ["squeezenet1.0", "squeezenet1.1"]


def test_again_measures_only_what_is_asked_for(
    engine: None, asked: list[str], measure: Callable[..., dict[str, Any]]
) -> None:
    measure("--network=squeezenet1")
    rows = measure("--network=squeezenet1.1", "--again")
    assert asked == ["squeezenet1.0", "squeezenet1.1", "squeezenet1.1"]
    assert {name: row["seconds"] for name, row in rows.items()} == {"squeezenet1.0": 1.0, "squeezenet1.1": 3.0}


@pytest.mark.parametrize(
    "trouble", [{"problem": "not done"}, {"engines": {"openvino": {"cosine": None, "integers": 0, "problem": "none"}}}]
)
def test_retry_measures_what_has_a_problem(
    engine: None,
    asked: list[str],
    measure: Callable[..., dict[str, Any]],
    trouble: dict[str, Any],
    tmp_path: Path,
) -> None:
    measure("--network=squeezenet1", "--network=alexnet")
    document = json.loads((tmp_path / "r.json").read_text())
    document["rows"] = [row | (trouble if row["network"] == "squeezenet1.0" else {}) for row in document["rows"]]
    (tmp_path / "r.json").write_text(json.dumps(document))
    del asked[:]
    rows = measure("--network=squeezenet1", "--retry")
    assert asked == ["squeezenet1.0"]
    assert [row["problem"] for row in rows.values() if row["network"] in ("squeezenet1.0", "squeezenet1.1")] == [""] * 2


def test_rows_are_in_the_order_of_the_catalogue(
    engine: None, asked: list[str], measure: Callable[..., dict[str, Any]]
) -> None:
    from zoo import zoo

    for name in ("squeezenet1.1", "resnet18_v1", "alexnet"):
        rows = measure(f"--network={name}")
    assert asked[0] == "squeezenet1.1"
    assert list(rows) == [entry.name for entry in zoo() if entry.name in rows]


def test_int8_networks_of_gluoncv_are_not_measured(
    engine: None, asked: list[str], measure: Callable[..., dict[str, Any]]
) -> None:
    rows = measure("--network=resnet50_v1_int8")
    assert asked == []
    assert rows["resnet50_v1_int8"]["quantized_as"] == "resnet50_v1"


def test_rows_of_other_runs_are_taken_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: None) -> None:
    import zoo

    monkeypatch.setattr(zoo, "fitting", lambda entry, minutes, gigabytes: quantized(network=entry.name))
    for part in (1, 2):
        options = ["--network", "squeezenet", "--share", f"{part}/2", "--out", str(tmp_path / f"part{part}")]
        monkeypatch.setattr(sys, "argv", ["zoo.py", *options])
        zoo.main()
    monkeypatch.delattr(zoo, "fitting")
    files = [option for part in (1, 2) for option in ("--known", str(tmp_path / f"part{part}.json"))]
    monkeypatch.setattr(sys, "argv", ["zoo.py", "--network", "squeezenet", *files, "--out", str(tmp_path / "whole")])
    zoo.main()
    rows = json.loads((tmp_path / "whole.json").read_text())["rows"]
    assert sorted(row["network"] for row in rows) == ["squeezenet1.0", "squeezenet1.1"]


def given(monkeypatch: pytest.MonkeyPatch, *options: object) -> None:
    """Run the script with these options."""
    import zoo

    monkeypatch.setattr(sys, "argv", ["zoo.py", *map(str, options)])
    zoo.main()


def rows_in(path: Path) -> dict[str, dict[str, Any]]:
    return {row["network"]: row for row in json.loads(path.read_text())["rows"]}


@pytest.mark.parametrize("own", ["1/2", "1/1"])
def test_runs_into_one_file_keep_each_others_rows_and_measure_none_twice(
    engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, own: str
) -> None:
    """While a run measures its first network, another measures the second."""
    import zoo

    names: list[str] = []

    def fitting(entry: Entry, minutes: float, gigabytes: float) -> dict[str, Any]:
        names.append(entry.name)
        if len(names) == 1:
            given(monkeypatch, "--network=squeezenet1.1", "--out", tmp_path / "r")
        return quantized(network=entry.name)

    monkeypatch.setattr(zoo, "fitting", fitting)
    given(monkeypatch, "--network=squeezenet1", "--share", own, "--out", tmp_path / "r")
    assert names == list(rows_in(tmp_path / "r.json")) == ["squeezenet1.0", "squeezenet1.1"]
    page = (tmp_path / "r.md").read_text()
    assert all(f"| {name} | pose |" in page for name in names)


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
@pytest.mark.parametrize("out", ["old", "new", "whole"])
def test_of_two_rows_the_one_measured_last_is_taken_over(
    engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, order: tuple[str, str], out: str
) -> None:
    times = {"old": "2026-01-31T23:00:00+00:00", "new": "2026-02-01T00:00:00+00:00"}
    for name, measured in times.items():
        rows = [quantized(network="squeezenet1.0", task=name, measured=measured), quantized(network=name)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": rows}))
    known = [option for name in order for option in ("--known", tmp_path / f"{name}.json")]
    given(monkeypatch, *known, "--network=squeezenet1.0", "--out", tmp_path / out)
    taken = rows_in(tmp_path / f"{out}.json")
    assert set(taken) == {"squeezenet1.0", "old", "new"}
    assert taken["squeezenet1.0"]["task"] == "new"


def test_what_is_measured_replaces_a_row_that_a_clock_ahead_has_stamped(
    engine: None, asked: list[str], measure: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    ahead = quantized(network="squeezenet1.0", measured="2999-01-01T00:00:00+00:00")
    (tmp_path / "r.json").write_text(json.dumps({"rows": [ahead]}))
    assert measure("--network=squeezenet1.0", "--again")["squeezenet1.0"]["measured"] == ""


def test_a_row_says_when_it_was_measured(engine: None) -> None:
    from zoo_rows import blank

    before = datetime.now(UTC).replace(microsecond=0)
    row = blank(Entry("alexnet", "classification", "alexnet", (3, 224, 224)), 4)
    assert before <= datetime.fromisoformat(row.measured) <= datetime.now(UTC)


def test_the_command_is_that_of_all_rows_and_bounds_are_each_rows_own(
    engine: None, asked: list[str], measure: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    rows = measure("--network=squeezenet1.0", "--share", "1/1")
    assert rows["squeezenet1.0"]["minutes"] == 2.0
    assert json.loads((tmp_path / "r.json").read_text())["command"] == "python benchmarks/zoo.py"
    assert "| 3.2 of 12 | 1 of 120 |" in (tmp_path / "r.md").read_text()


def test_a_page_that_a_killed_run_left_behind_is_written_anew(
    engine: None, asked: list[str], measure: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    measure("--network=squeezenet1.0")
    page, rows = (tmp_path / "r.md").read_text(), (tmp_path / "r.json").read_bytes()
    (tmp_path / "r.md").write_text("stale")
    measure("--network=squeezenet1.0")
    assert (tmp_path / "r.md").read_text() == page
    # Nothing was measured: the file does not name another commit.
    assert (tmp_path / "r.json").read_bytes() == rows


def test_rows_of_earlier_versions_are_kept(
    engine: None, asked: list[str], measure: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    later = ("quantized_as", "minutes", "measured", "host", "revision")
    row = {key: value for key, value in quantized(network="squeezenet1.0").items() if key not in later}
    old = {**row, "host": {"cpu": "y"}, "revision": None}
    (tmp_path / "r.json").write_text(json.dumps({"command": "x", "host": {}, "rows": [old]}))
    assert list(measure("--network=squeezenet1")) == ["squeezenet1.0", "squeezenet1.1"]
    assert asked == ["squeezenet1.1"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "\xff",
        "[]",
        "{}",
        '{"rows": 1}',
        '{"rows": [1]}',
        '{"rows": [{}]}',
        # Of another suite.
        '{"rows": [{"network": "alexnet", "top1": 1.0}]}',
    ],
)
@pytest.mark.parametrize("option", ["--known", "--out"])
def test_a_file_of_something_else_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: None, text: str, option: str
) -> None:
    (tmp_path / "r.json").write_text(text, "latin-1")
    given_as = {
        "--known": ["--known", tmp_path / "r.json", "--out", tmp_path / "new"],
        "--out": ["--out", tmp_path / "r"],
    }
    with pytest.raises(UserError, match=r"r\.json is no file of zoo\.py; give another or remove it"):
        given(monkeypatch, "--network=squeezenet1.0", *given_as[option])
    assert (tmp_path / "r.json").read_bytes() == text.encode("latin-1")
