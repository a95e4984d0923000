"""The suite of GluonCV's whole zoo: what becomes of a network, in a process of its own and at which size."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.backends.mxnet.zoo import zoo_names
from quantkit.files.files import shipped
from quantkit.models.catalogue import Entry
from tests.processes import environment
from tests.suites.zoo_rows_made import lines, quantized, refused

SMALL = Entry("cifar_resnet20_v1", "classification", "resnet", (3, 32, 32))


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
    row = zoo.fitting(SMALL, 15, 4)
    assert (row["input"], row["full_input"], row["seconds"]) == (f"3x{size}x{size}", full, seconds)
    assert bool(row["problem"]) == stopped
    (line,) = [line for line in lines(row) if line.startswith("| net | pose ")]
    assert ("(3x32x32 needs more memory) |" in line) == bool(full)


@pytest.mark.parametrize(
    ("problem", "in_engine"),
    [("EngineError: std::bad_alloc", True), ("the process ended with -9: nothing was printed", False)],
)
def test_memory_may_be_too_little_for_an_engine_or_for_the_kernel(
    problem: str, in_engine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zoo

    def alone(entry: Entry, minutes: float, gigabytes: float, halved: int = 0) -> dict[str, Any]:
        engines = {"openvino": {"cosine": None, "integers": 0, "problem": problem if in_engine and not halved else ""}}
        own = "" if in_engine or halved else problem
        return quantized(reached="exported" if in_engine or halved else "fused", problem=own, engines=engines)

    monkeypatch.setattr(zoo, "alone", alone)
    row = zoo.fitting(SMALL, 15, 4)
    assert (row["problem"], row["engines"]["openvino"]["problem"], row["full_input"]) == ("", "", "3x8x8")


def test_all_sizes_together_take_no_longer_than_a_network_may(monkeypatch: pytest.MonkeyPatch) -> None:
    import zoo

    given: list[float] = []

    def alone(entry: Entry, minutes: float, gigabytes: float, halved: int = 0) -> dict[str, Any]:
        given.append(minutes)
        return refused(problem="EngineError: std::bad_alloc", seconds=90.0)

    monkeypatch.setattr(zoo, "alone", alone)
    zoo.fitting(SMALL, 4, 4)
    assert given == [4.0, 2.5, 1.0]
    del given[:]
    zoo.fitting(SMALL, 3, 4)
    assert given == [3.0, 1.5]


def test_a_half_at_which_a_network_gets_less_far_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    import zoo

    def alone(entry: Entry, minutes: float, gigabytes: float, halved: int = 0) -> dict[str, Any]:
        full = quantized(problem="the process ended with -6: bad_alloc", engines={}, reached="quantized")
        return [full, refused(problem="ModelError: does not accept input")][halved]

    monkeypatch.setattr(zoo, "alone", alone)
    row = zoo.fitting(SMALL, 15, 4)
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
    assert zoo.fitting(replace(SMALL, input_shape=shape), 15, 4)["full_input"] == ""


def test_a_network_that_exceeds_its_bound_is_a_row(engine: None) -> None:
    from zoo import _TOO_MUCH_MEMORY, alone

    # Too little for the engine's library: once it runs, it may end with a fault, or its threads wait for each other.
    row = alone(SMALL, 2, 0.1, 1)
    assert (row["input"], row["bound"]) == ("3x16x16", 0.1)
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


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--network=squeezenet", "--network=nonsense"], "no network's name contains 'nonsense'"),
        (["--known", __file__], "give --out, too"),
        (["--known", f"{__file__}.json"], "there is no file"),
        *((["--minutes", text], f"'{text}' is no number above 0") for text in ("0", "-1", "nan", "inf", "x")),
        *((["--gigabytes", text], f"'{text}' is no number above 0") for text in ("0", "-1", "nan", "inf", "x")),
    ],
)
def test_options_that_make_no_sense_are_refused(
    options: list[str],
    told: str,
    engine: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import zoo

    monkeypatch.setattr(zoo, "fitting", lambda *_: quantized())
    monkeypatch.setattr(sys, "argv", ["zoo.py", *options])
    with pytest.raises(SystemExit) as ended:
        zoo.main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


_KILLED = """
import sys
sys.path[:0] = [sys.argv[1]]
import zoo
from quantkit.models.catalogue import Entry
zoo.__file__ = sys.argv[2]
zoo.alone(Entry("cifar_resnet20_v1", "classification", "resnet", (3, 32, 32)), 1, 4)
"""


def test_the_process_of_a_network_ends_with_a_run_that_is_killed(engine: None, tmp_path: Path) -> None:
    script, pid = tmp_path / "alone.py", tmp_path / "pid"
    script.write_text(f"import os, time; open({str(pid)!r}, 'w').write(f'{{os.getpid()}} '); time.sleep(600)")
    command = [sys.executable, "-c", _KILLED, str(shipped("benchmarks")), str(script)]
    killed = subprocess.Popen(command, env=environment())
    try:
        assert any(pid.exists() and pid.read_text().endswith(" ") for _ in until(60))
    finally:
        killed.kill()
        killed.wait()
    assert any(not Path(f"/proc/{int(pid.read_text())}").exists() for _ in until(10))


def until(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.02)
