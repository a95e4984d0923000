"""The suite of GluonCV's whole zoo: what becomes of a network, what its page says, and that an ended run goes on."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.backends.mxnet.zoo import zoo_names
from quantkit.diagnosis.coverage import Coverage, Left
from quantkit.models.catalogue import Entry

COVERED = Coverage(1000, 10, 9, 400, 390, (Left("no kernel", 1, 10),))
SMALL = Entry("cifar_resnet20_v1", "classification", "resnet", (3, 32, 32))
REVISION = {"version": "0.1.0", "commit": "0123456789abcdef", "dirty": False}


def quantized(**changes: Any) -> dict[str, Any]:
    from zoo_rows import InEngine, Row

    engines = {"onnxruntime": InEngine(0.99991, 9), "openvino": InEngine(problem="EngineError: a | b")}
    row = Row("net", "pose", "3x8x8", "exported", "", 2e-7, 0.9876, COVERED, engines, 61.4, 12.0, 3.21)
    return asdict(replace(row, **{"host": {"cpu": "y"}, "revision": REVISION, **changes}))


def refused(**changes: Any) -> dict[str, Any]:
    """A network that cannot be loaded."""
    return quantized(reached="nothing", coverage=None, engines={}, **{"problem": "ModelError: a\n| b", **changes})


def stands(name: str, quantized_as: str) -> dict[str, Any]:
    """One of GluonCV's own INT8 networks."""
    from zoo_rows import Row

    return asdict(Row(name, "pose", "3x8x8", quantized_as=quantized_as))


def lines(*rows: dict[str, Any]) -> list[str]:
    from zoo_page import page

    return page({"command": "python x", "host": {"cpu": "z"}, "rows": rows}).splitlines()


def test_a_row_has_all_stages() -> None:
    expected = "| net | pose | 3x8x8 | 9 of 10 | 97.5 | 0.9876 | 2.0e-07 | 0.99991, 9 | EngineError: a \\| b |  | "
    expected += "3.2 of 12 | 61 |"
    assert expected in lines(quantized())


def test_a_network_that_stopped_says_where() -> None:
    from zoo_rows import Row

    row = asdict(Row("net", "pose", "3x8x8", problem="ModelError: give\nanother", seconds=1.0, revision=REVISION))
    assert "| net | pose | 3x8x8 |  |  |  |  |  |  | ModelError: give another | 0.0 of 0 | 1 |" in lines(row)


def test_sorted_lists_have_no_cosine_with_mxnet() -> None:
    from zoo_rows import InEngine

    row = quantized(cosine=None, engines={"onnxruntime": InEngine(None, 9)})
    assert "| net | pose | 3x8x8 | 9 of 10 | 97.5 |  | 2.0e-07 | sorted, 9 |  |  | 3.2 of 12 | 61 |" in lines(row)


def counts(*rows: dict[str, Any]) -> str:
    (found,) = (line for line in lines(*rows) if "names quantize" in line)
    return found


def test_networks_and_reasons_are_counted() -> None:
    little = replace(COVERED, int8_macs=100, left=(Left("no kernel", 3, 200), Left("too wide", 1, 100)))
    rows = (
        quantized(network="a"),
        quantized(network="b", coverage=little, reached="quantized", engines={}),
        refused(network="c"),
    )
    assert counts(*rows).startswith(
        "2 of 3 names quantize, 1 of them with at least 97 % of the multiply-accumulates in INT8. 1 are written as "
        "ONNX; 1 run in onnxruntime and 0 run in openvino. 0 of the names are GluonCV's own INT8 networks"
    )
    assert lines(*rows)[-2:] == ["| no kernel | 2 | 4 |", "| too wide | 1 | 1 |"]


def test_a_network_that_dies_in_an_engine_quantizes_all_the_same() -> None:
    died = quantized(problem="the process ended with -6: abort", engines={})
    assert counts(died).startswith("1 of 1 names quantize, 1 of them with at least 97 %")
    assert "| net | 97.5 | no kernel (2.5); the process ended with -6: abort |" in lines(died)


def test_int8_networks_of_gluoncv_count_as_those_that_stand_for_them_and_are_told_apart() -> None:
    rows = (quantized(network="a"), stands("a_int8", "a"), refused(network="b"), stands("b_int8", "b"))
    assert counts(*rows).startswith("2 of 4 names quantize, 2 of them with at least 97 %")
    assert ". 2 are written as ONNX; 2 run in onnxruntime and" in counts(*rows)
    assert "2 of the names are GluonCV's own INT8 networks, in whose place" in counts(*rows)
    assert "| a_int8 | pose | 3x8x8 | as a |  |  |  |  |  |  |  |  |" in lines(*rows)
    # Without the row of the other nothing is known.
    assert counts(stands("a_int8", "a")).startswith("0 of 1 names quantize")


def test_the_page_says_which_commits_and_hosts_measured() -> None:
    newer = {**REVISION, "commit": "fedcba9876543210"}
    rows = (
        quantized(network="a", revision=newer),
        quantized(network="b"),
        quantized(network="c"),
        quantized(network="d", host={"cpu": "y", "threads": "2"}),
        stands("a_int8", "a"),
    )
    assert lines(*rows)[:6] == [
        "`python x`. Measured on",
        "",
        "- cpu y, quantkit 0.1.0, commit 0123456789ab (clean): 2 networks",
        "- cpu y, quantkit 0.1.0, commit fedcba987654 (clean): 1 network",
        "- cpu y, threads 2, quantkit 0.1.0, commit 0123456789ab (clean): 1 network",
        "",
    ]


def test_each_network_below_the_goal_says_why() -> None:
    little = replace(COVERED, int8_macs=280, left=(Left("no kernel", 3, 80), Left("too wide", 1, 40)))
    written = lines(quantized(), quantized(network="b", coverage=little), refused(network="c"))
    (start,) = [place for place, line in enumerate(written) if line.startswith("Networks that stop early")]
    assert written[start + 4 : start + 7] == [
        "| b | 70.0 | no kernel (20.0); too wide (10.0) |",
        "| c |  | ModelError: a \\| b |",
        "",
    ]


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


def test_the_zoo_is_that_of_gluoncv(engine: None) -> None:
    from zoo import zoo

    assert sorted(entry.name for entry in zoo()) == list(zoo_names())
    assert len(zoo_names()) == 332


@pytest.mark.requires("onnxruntime", "openvino")
def test_a_network_goes_through_all_stages(int8_engine: None) -> None:
    from zoo_rows import Row, stages

    rows = list(stages(Row(SMALL.name, SMALL.task, "3x32x32")))
    assert [row.reached for row in rows] == ["loaded", "fused", "quantized", *["exported"] * 3]
    assert [len(row.engines) for row in rows] == [0, 0, 0, 0, 1, 2]
    row = rows[-1]
    assert row.problem == ""
    assert row.coverage is not None and row.coverage.share == 1.0
    assert row.fusion is not None and row.fusion < 1e-4
    assert row.cosine is not None and row.cosine > 0.9
    assert {engine: ran.problem for engine, ran in row.engines.items()} == {"onnxruntime": "", "openvino": ""}
    assert all(ran.cosine is not None and ran.cosine > 0.99 for ran in row.engines.values())


@pytest.mark.requires("onnxruntime", "openvino")
def test_of_sorted_lists_the_tensors_before_are_compared(int8_engine: None) -> None:
    from zoo_rows import Row, stages

    row = list(stages(Row("digits_ssd", "detection", "3x96x96")))[-1]
    assert (row.reached, row.problem) == ("exported", "")
    assert row.cosine is not None and 0.9 < row.cosine < 1
    assert [(ran.problem, ran.cosine) for ran in row.engines.values()] == [("", None)] * 2
    assert all(ran.integers > 0 for ran in row.engines.values())


def test_what_was_reached_before_an_error_of_any_kind_is_told(
    int8_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zoo_rows

    def failing(*_: object) -> None:
        raise RuntimeError("of another library")

    monkeypatch.setattr(zoo_rows, "lower", failing)
    row, rows = zoo_rows.Row(SMALL.name, SMALL.task, "3x32x32"), []
    with pytest.raises(RuntimeError, match="another library"):
        rows.extend(zoo_rows.stages(row))
    assert [each.reached for each in rows] == ["loaded", "fused"]


def test_what_is_refused_is_a_row(engine: None) -> None:
    from zoo_rows import Row, stages

    (row,) = stages(Row("alexnet", "classification", "3x8x8"), (3, 8, 8))
    assert row.reached == "nothing"
    assert row.problem.startswith("ModelError: alexnet does not accept input")


def test_a_process_that_fails_is_a_row(engine: None) -> None:
    from zoo import alone

    row = alone(replace(SMALL, name="nothing"), 1, 4)
    assert "ended with" in row["problem"] and "no network 'nothing'" in row["problem"]
    assert row["revision"]["commit"] and row["host"]["cpu"]


def test_a_process_that_takes_too_long_is_a_row(engine: None) -> None:
    from zoo import alone

    row = alone(SMALL, 1e-3, 4)
    assert row["problem"] == "not done after 0.001 minutes"


@pytest.mark.parametrize(
    ("ending", "problem"),
    [
        ("time.sleep(60)", "not done after 0.05 minutes"),
        ("os.abort()", "the process ended with -6: nothing was printed"),
        ("sys.exit('std::bad_alloc')", "the process ended with 1: std::bad_alloc"),
        ("raise RuntimeError('of another library')", "the process ended with 1: RuntimeError: of another library"),
        ("os._exit(0)", ""),
    ],
)
def test_the_last_row_of_a_process_is_kept_however_it_ends(
    engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ending: str, problem: str
) -> None:
    import zoo

    rows = [quantized(reached="fused", coverage=None), quantized(reached="quantized", seconds=0.125)]
    printed = [json.dumps(row) for row in rows]
    script = ["import os, sys, time", *(f"print({row!r}, flush=True)" for row in printed)]
    # An engine's words, and half a row.
    script += ["""print('42\\nloading \\xff {\\n{"network": "ne', end='', flush=True)""", ending]
    (tmp_path / "alone.py").write_text("\n".join(script))
    monkeypatch.setattr(zoo, "__file__", str(tmp_path / "alone.py"))
    row = zoo.alone(SMALL, 0.05, 4)
    assert row == json.loads(printed[1]) | {"problem": problem, "seconds": row["seconds"]}
    assert (row["seconds"] == 0.125) == (problem == "")


@pytest.mark.parametrize(
    ("limit", "size", "full", "stopped", "seconds"),
    [(32, 32, "", False, 2), (16, 16, "3x32x32", False, 4), (8, 8, "3x32x32", False, 6), (4, 32, "", True, 6)],
)
def test_a_network_that_needs_too_much_memory_is_tried_at_half_its_size(
    limit: int, size: int, full: str, stopped: bool, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zoo

    def alone(entry: Entry, minutes: float, gigabytes: float, halved: int = 0) -> dict[str, Any]:
        side = 32 >> halved
        made = refused(problem="EngineError: std::bad_alloc") if side > limit else quantized()
        return made | {"input": f"3x{side}x{side}", "seconds": 2.0}

    monkeypatch.setattr(zoo, "alone", alone)
    row = zoo.fitting(SMALL, 1, 4)
    assert (row["input"], row["full_input"], row["seconds"]) == (f"3x{size}x{size}", full, seconds)
    assert bool(row["problem"]) == stopped
    (line,) = [line for line in lines(row) if line.startswith("| net | pose ")]
    assert ("(3x32x32 needs more memory) |" in line) == bool(full)


def test_a_half_at_which_a_network_gets_less_far_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    import zoo

    def alone(entry: Entry, minutes: float, gigabytes: float, halved: int = 0) -> dict[str, Any]:
        full = quantized(problem="the process ended with -6: bad_alloc", engines={}, reached="quantized")
        return [full, refused(problem="ModelError: does not accept input")][halved]

    monkeypatch.setattr(zoo, "alone", alone)
    row = zoo.fitting(SMALL, 1, 4)
    assert (row["reached"], row["full_input"]) == ("quantized", "")


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
