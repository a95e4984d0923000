"""The suite of GluonCV's whole zoo: what becomes of a network, what its page says, and that an ended run goes on."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.diagnosis.coverage import Coverage, Left
from quantkit.models.catalogue import Entry

COVERED = Coverage(1000, 10, 9, 400, 390, (Left("no kernel", 1, 10),))
SMALL = Entry("cifar_resnet20_v1", "classification", "resnet", (3, 32, 32))


def quantized(**changes: Any) -> dict[str, Any]:
    from zoo import InEngine, Row

    engines = {"onnxruntime": InEngine(0.99991, 9), "openvino": InEngine(problem="EngineError: a | b")}
    row = Row("net", "pose", "3x8x8", "exported", "", 2e-7, 0.9876, COVERED, engines, 61.4, 12.0, 3.21)
    return asdict(replace(row, **changes))


def lines(*rows: dict[str, Any]) -> list[str]:
    from zoo import page

    return page({"command": "python x", "host": {"cpu": "y"}, "rows": rows}).splitlines()


def test_a_row_has_all_stages() -> None:
    expected = "| net | pose | 3x8x8 | 9 of 10 | 97.5 | 0.9876 | 2.0e-07 | 0.99991, 9 | EngineError: a \\| b |  | "
    expected += "3.2 of 12 | 61 |"
    assert expected in lines(quantized())


def test_a_network_that_stopped_says_where() -> None:
    from zoo import Row

    row = asdict(Row("net", "pose", "3x8x8", problem="ModelError: give\nanother", seconds=1.0))
    assert "| net | pose | 3x8x8 |  |  |  |  |  |  | ModelError: give another | 0.0 of 0 | 1 |" in lines(row)


def test_networks_and_reasons_are_counted() -> None:
    little = replace(COVERED, int8_macs=100, left=(Left("no kernel", 3, 200), Left("too wide", 1, 100)))
    refused = quantized(coverage=None, reached="nothing", engines={})
    written = lines(quantized(), quantized(coverage=little, reached="quantized", engines={}), refused)
    assert written[2] == (
        "2 of 3 networks quantize, 1 of them with at least 97 % of the multiply-accumulates in INT8; 1 are written as "
        "ONNX."
    )
    assert written[-2:] == ["| no kernel | 2 | 4 |", "| too wide | 1 | 1 |"]


def test_each_network_below_the_goal_says_why() -> None:
    little = replace(COVERED, int8_macs=280, left=(Left("no kernel", 3, 80), Left("too wide", 1, 40)))
    refused = quantized(network="c", coverage=None, reached="nothing", engines={}, problem="ModelError: a\n| b")
    written = lines(quantized(), quantized(network="b", coverage=little), refused)
    (start,) = [place for place, line in enumerate(written) if line.startswith("The others")]
    assert written[start + 4 : start + 7] == [
        "| b | 70.0 | no kernel (20.0); too wide (10.0) |",
        "| c |  | ModelError: a \\| b |",
        "",
    ]


def test_what_is_known_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: None) -> None:
    import zoo

    asked: list[str] = []

    def row(entry: Entry, minutes: float, gigabytes: float) -> dict[str, Any]:
        assert (minutes, gigabytes) == (2.0, 3.0)
        asked.append(entry.name)
        return quantized(network=entry.name)

    monkeypatch.setattr(zoo, "fitting", row)
    options = ["--minutes", "2", "--gigabytes", "3", "--out", str(tmp_path / "r")]
    for parts in (["squeezenet1.0"], ["squeezenet1"]):
        monkeypatch.setattr(sys, "argv", ["zoo.py", *options, *(f"--network={part}" for part in parts)])
        zoo.main()
    assert asked == ["squeezenet1.0", "squeezenet1.1"]
    document = json.loads((tmp_path / "r.json").read_text())
    assert [each["network"] for each in document["rows"]] == asked
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--again"])
    zoo.main()
    assert asked[2:] == ["squeezenet1.0", "squeezenet1.1"]


@pytest.mark.requires("onnxruntime", "openvino")
def test_a_network_goes_through_all_stages(int8_engine: None) -> None:
    from zoo import Row, stages

    row = list(stages(Row(SMALL.name, SMALL.task, "3x32x32")))[-1]
    assert (row.reached, row.problem) == ("exported", "")
    assert row.coverage is not None and row.coverage.share == 1.0
    assert row.fusion is not None and row.fusion < 1e-4
    assert {engine: ran.problem for engine, ran in row.engines.items()} == {"onnxruntime": "", "openvino": ""}
    assert all(ran.cosine is not None and ran.cosine > 0.99 for ran in row.engines.values())


def test_what_is_refused_is_a_row(engine: None) -> None:
    from zoo import Row, stages

    (row,) = stages(Row("resnet50_v1_int8", "classification", "3x224x224"))
    assert row.reached == "nothing"
    assert row.problem.startswith("ModelError: resnet50_v1_int8 cannot be quantized")


def test_a_process_that_fails_is_a_row(engine: None) -> None:
    from zoo import alone

    row = alone(replace(SMALL, name="nothing"), 1, 4)
    assert "ended with" in row["problem"] and "no network 'nothing'" in row["problem"]


def test_a_process_that_takes_too_long_is_a_row(engine: None) -> None:
    from zoo import alone

    row = alone(SMALL, 1e-3, 4)
    assert row["problem"] == "not done after 0.001 minutes"


@pytest.mark.parametrize(
    ("limit", "size", "full", "stopped", "seconds"),
    [(32, 32, "", False, 2), (16, 16, "3x32x32", False, 4), (8, 8, "3x32x32", False, 6), (4, 8, "3x32x32", True, 6)],
)
def test_a_network_that_needs_too_much_memory_is_tried_at_half_its_size(
    limit: int, size: int, full: str, stopped: bool, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zoo

    def alone(entry: Entry, minutes: float, gigabytes: float, halved: int = 0) -> dict[str, Any]:
        side = 32 >> halved
        problem = "EngineError: std::bad_alloc" if side > limit else ""
        return quantized(input=f"3x{side}x{side}", problem=problem, seconds=2.0)

    monkeypatch.setattr(zoo, "alone", alone)
    row = zoo.fitting(SMALL, 1, 4)
    assert (row["input"], row["full_input"], row["seconds"]) == (f"3x{size}x{size}", full, seconds)
    assert bool(row["problem"]) == stopped
    (line,) = [line for line in lines(row) if line.startswith("| net ")]
    assert ("(3x32x32 needs more memory) |" in line) == bool(full)


@pytest.mark.parametrize(
    ("problem", "shape"),
    [
        ("", SMALL.input_shape),
        ("not done after 1 minutes", SMALL.input_shape),
        ("ModelError: no such memory cell", SMALL.input_shape),
        ("EngineError: std::bad_alloc", (3, 16, 112, 112)),
    ],
)
def test_nothing_else_is_tried_at_half_the_size(
    problem: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    import zoo

    monkeypatch.setattr(zoo, "alone", lambda entry, minutes, gigabytes: quantized(problem=problem))
    assert zoo.fitting(replace(SMALL, input_shape=shape), 1, 4)["full_input"] == ""


def test_a_network_that_exceeds_its_bound_is_a_row(engine: None) -> None:
    from zoo import _TOO_MUCH_MEMORY, alone

    row = alone(SMALL, 5, 0.5, 1)
    assert (row["input"], row["bound"]) == ("3x16x16", 0.5)
    assert _TOO_MUCH_MEMORY.search(row["problem"]), row["problem"]


def test_shares_are_the_whole_zoo(engine: None) -> None:
    from zoo import chosen, share

    shares = [chosen(None, share(f"{part}/4")) for part in (1, 2, 3, 4)]
    names = [entry.name for each in shares for entry in each]
    assert sorted(names) == sorted(entry.name for entry in chosen(None))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert chosen(["ssd_300"], (1, 1)) == chosen(["ssd_300"])


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/", "a/b", "-1/4", "1/0"])
def test_what_is_no_share_is_refused(text: str) -> None:
    from zoo import share

    with pytest.raises(ArgumentTypeError, match="no share"):
        share(text)


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
