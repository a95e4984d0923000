from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Optional

import pytest

from quantkit.benchmark.measuring import group, runner, schedule
from quantkit.benchmark.measuring.outputs import FLOAT_ALLOWED, INT8_ALLOWED
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.results.result_files import read_results, read_run, write_cell
from quantkit.benchmark.results.results import Agreement, Cell, Failure, Kernels
from quantkit.benchmark.results.statistics import finished, throughput
from quantkit.errors import EngineError, QuantkitError, UserError
from tests.benchmark.fakes import FakeWorkload, launch, suite
from tests.benchmark.measuring.toy_runs import bench, by_name, children
from tests.requirements import requires

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("quick")]


def test_contestants_take_turns_and_all_is_on_disk(tmp_path: Path) -> None:
    toy = suite(("fp32", "fused"), batches=(1, 2))
    results = bench(toy, tmp_path, {"fp32": {}, "fused": {"seconds": 0.02}})
    cells = by_name(results)
    assert set(cells) == {("fp32", 1), ("fused", 1), ("fp32", 2), ("fused", 2)}
    assert results.run.state == "finished" and results.run.left_out == ()
    for batch in (1, 2):
        turns = sorted((turn.at, name) for name in ("fp32", "fused") for turn in cells[name, batch].rounds)
        assert [{name for _, name in turns[i : i + 2]} for i in range(0, 6, 2)] == [{"fp32", "fused"}] * 3
    assert throughput(cells["fp32", 2]) == pytest.approx(2 * throughput(cells["fp32", 1]), rel=0.2)
    assert throughput(cells["fp32", 1]) == pytest.approx(2 / 0.01, rel=0.2)
    assert throughput(cells["fused", 1]) == pytest.approx(2 / 0.02, rel=0.2)
    assert children() == set()


def test_throughput_is_what_the_instances_finished_in_the_common_window(tmp_path: Path) -> None:
    cell = bench(suite(), tmp_path, {"fp32": {"seconds": 0.004}}).cells[0]
    counted, seconds, apart = 0, 0.0, []
    for turn in cell.rounds:
        first, second = turn.instances
        begin, end = max(first.starts[0], second.starts[0]), min(first.ends[-1], second.ends[-1])
        apart.append(abs(first.starts[0] - second.starts[0]))
        counted += sum(begin < tick <= end for ticks in turn.instances for tick in ticks.ends)
        seconds += (end - begin) / 1e9
    # Both begin at the barrier; a busy machine may hold one of them up now and then.
    assert median(apart) < 5e6
    assert finished(cell) == counted
    assert throughput(cell) == pytest.approx(counted / seconds, abs=2 * len(cell.rounds) / seconds)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("load:exit", "crashed"),
        ("measure:kill", "killed"),
        ("measure:stop", "hung"),
        ("measure:exit", "crashed"),
        ("measure:garbage", "protocol"),
        ("measure:late", "late"),
        ("outputs:kill", "killed"),
        ("wrong", "output"),
    ],
)
def test_a_failing_instance_is_named_and_the_others_go_on(fault: str, kind: str, tmp_path: Path) -> None:
    toy = suite(("fp32", "int8"), batches=(1, 2))
    told: list[str] = []
    results = bench(toy, tmp_path, {"fp32": {}, "int8": {"fault": fault, "instance": 1}}, told=told)
    cells = by_name(results)
    for batch in (1, 2):
        failure = cells["int8", batch].failure
        assert failure is not None and (failure.kind, failure.instance) == (kind, 1)
        assert cells["fp32", batch].failure is None and len(cells["fp32", batch].rounds) == 3
    if kind not in ("output", "late"):
        assert cells["int8", 1].failure.stderr == ("last words",)  # type: ignore[union-attr]
    assert sum("FAILED net, batch 1, int8, instance 1" in text for text in told) == 1
    assert children() == set()


def test_contestants_take_turns_in_no_fixed_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "ROUNDS", 12)
    monkeypatch.setattr(schedule, "_SLICE", 0.02)
    cells = by_name(bench(suite(("fp32", "fused")), tmp_path, {"fp32": {}, "fused": {}}))
    pairs = zip(cells["fp32", 1].rounds, cells["fused", 1].rounds)
    assert {one.at < other.at for one, other in pairs} == {True, False}


def test_instances_are_warmed_until_they_are_steady(tmp_path: Path) -> None:
    # Two runs tell how long one takes; the fake says that it is steady after one more.
    cell = bench(suite(), tmp_path, {"fp32": {}}).cells[0]
    assert [len(each.durations) for each in cell.warm_up] == [3, 3]


def test_a_first_run_that_prepares_weights_does_not_stand_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_SLOW", 0.1)
    cell = bench(suite(), tmp_path, {"fp32": {"first": 0.2}}).cells[0]
    assert [len(each.durations) for each in cell.warm_up] == [3, 3]


def test_minutes_used_before_an_interruption_count(tmp_path: Path) -> None:
    results = bench(suite(), tmp_path, {"fp32": {}}, budget=2.0, minutes=2.0)
    assert results.cells == () and [each.contestant for each in results.run.left_out] == ["fp32"]


def test_fp32_contestants_must_agree_with_the_first(tmp_path: Path) -> None:
    toy = suite(("fp32", "stock", "fused"))
    cells = by_name(bench(toy, tmp_path, {"fp32": {}, "stock": {"value": 1.0005}, "fused": {"value": 1.01}}))
    assert cells["fp32", 1].agreement.deviation == 0  # type: ignore[union-attr]
    assert cells["stock", 1].failure is None
    assert cells["stock", 1].agreement.deviation == pytest.approx(5e-4, rel=0.01)  # type: ignore[union-attr]
    assert cells["fused", 1].failure.kind == "output"  # type: ignore[union-attr]


def test_int8_that_ran_in_float_has_no_speed(tmp_path: Path) -> None:
    toy = suite(("fp32", "int8"))
    told = {"fp32": {"kernels": {"int8": 0, "of": 5}}, "int8": {"kernels": {"int8": 4, "of": 5}}}
    cells = by_name(bench(toy, tmp_path / "good", told))
    assert [cells[name, 1].kernels for name in ("fp32", "int8")] == [Kernels(0, 5), Kernels(4, 5)]
    assert all(cell.failure is None for cell in cells.values())
    failure = by_name(bench(toy, tmp_path / "bad", {**told, "int8": told["fp32"]}))["int8", 1].failure
    assert failure is not None and failure.kind == "kernels" and "none of its 5" in failure.message


def test_what_another_quantizer_made_is_compared_with_fp32_and_not_judged(tmp_path: Path) -> None:
    toy = suite(("onnxruntime-ptq", "fp32"))
    launches = {each.name: (replace(launch(0), engine="onnxruntime"),) for each in toy.contestants}

    def cells(value: float, folder: str) -> dict[tuple[str, int], Cell]:
        forms = {"onnx": {"value": 2.0}, "onnxruntime-ptq": {"value": value}}
        return by_name(bench(toy, tmp_path / folder, forms, launches))

    found = cells(3.0, "far")
    assert found["onnxruntime-ptq", 1].agreement == Agreement("fp32", 0.5, None)
    assert found["fp32", 1].agreement == Agreement("fp32", 0.0, FLOAT_ALLOWED)
    assert all(cell.failure is None for cell in found.values())
    failure = cells(float("nan"), "nothing")["onnxruntime-ptq", 1].failure
    assert failure is not None and failure.kind == "output"


@pytest.mark.parametrize(("value", "is_right"), [(1.40, True), (1.41, False), (0.60, True), (0.59, False)])
def test_int8_on_another_engine_may_be_twice_as_far_from_mxnets_as_that_is_from_fp32(
    value: float, is_right: bool, tmp_path: Path
) -> None:
    toy = suite(("int8", "fp32"))
    launches = {each.name: (replace(launch(0), engine="openvino"),) for each in toy.contestants}
    # The reference's value is 1, FP32's 1.25.
    forms = {"onnx": {"value": 1.25}, "onnx-int8": {"value": value}}
    cell = by_name(bench(toy, tmp_path, forms, launches))["int8", 1]
    assert cell.agreement is not None and cell.agreement.allowed == pytest.approx(2 * 0.25 / 1.25 + INT8_ALLOWED)
    assert (cell.failure is None) == is_right


def test_int8_on_another_engine_is_not_judged_where_there_is_no_fp32(tmp_path: Path) -> None:
    launches = {"int8": (replace(launch(0), engine="openvino"),)}
    cell = by_name(bench(suite(("int8",)), tmp_path, {"onnx-int8": {"value": 1.5}}, launches))["int8", 1]
    assert (cell.agreement, cell.failure) == (Agreement("quantkit", 0.5, None), None)


def test_without_a_reference_a_cell_fails_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reference(self: FakeWorkload, variant: str, batch: int) -> Optional[Path]:
        if variant == "int8":
            raise EngineError("no INT8 here")
        return None

    monkeypatch.setattr(FakeWorkload, "reference", reference)
    cells = by_name(bench(suite(("fp32", "int8")), tmp_path, {"fp32": {}, "int8": {}}))
    assert cells["fp32", 1].failure is None
    assert cells["int8", 1].failure.kind == "output"  # type: ignore[union-attr]


def test_a_wrong_placement_fails(tmp_path: Path) -> None:
    placed = (launch(0, Placement((0,), None, 1)),)  # but nobody binds it
    requires("two-cpus")
    cell = bench(suite(), tmp_path, {"fp32": {}}, {"fp32": placed}).cells[0]
    assert cell.failure is not None and cell.failure.kind == "placement"


def test_what_is_finished_is_not_measured_again(tmp_path: Path) -> None:
    toy = suite(("fp32", "fused"), batches=(1, 2))
    variants: dict[str, dict[str, Any]] = {"fp32": {}, "fused": {}}
    first = bench(toy, tmp_path, variants)
    (tmp_path / "out" / "cells" / "net-b2-fused.json").unlink()
    told: list[str] = []
    second = bench(toy, tmp_path, variants, told=told)
    assert told == ["net, batch 2: fp32, fused"]
    assert by_name(second)["fp32", 1] == by_name(first)["fp32", 1]
    assert by_name(second)["fp32", 2] != by_name(first)["fp32", 2]


def test_a_failed_cell_is_tried_again(tmp_path: Path) -> None:
    failed = bench(suite(), tmp_path, {"fp32": {"fault": "measure:exit"}}).cells[0]
    assert failed.failure is not None
    assert bench(suite(), tmp_path, {"fp32": {}}).cells[0].failure is None


def test_an_interrupted_run_keeps_what_it_has(tmp_path: Path) -> None:
    toy = suite(batches=(1, 2))

    def interrupt() -> None:
        while not (tmp_path / "out" / "cells" / "net-b1-fp32.json").exists():
            time.sleep(0.01)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        bench(toy, tmp_path, {"fp32": {"seconds": 0.05}})
    thread.join()
    assert children() == set()
    results = read_results(tmp_path / "out")
    assert results.run.state == "interrupted"
    assert [cell.batch for cell in results.cells] == [1]
    assert len(bench(toy, tmp_path, {"fp32": {"seconds": 0.05}}).cells) == 2


def test_a_budget_leaves_out_the_dearest_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = suite(("fp32", "int8"), batches=(1, 4))
    begun = time.monotonic()
    monkeypatch.setattr(group, "_SLOW", 0.1)
    results = bench(toy, tmp_path, {"fp32": {"seconds": 0.2}, "int8": {}}, budget=5 / 60)
    assert time.monotonic() - begun < 7
    (left_out,) = results.run.left_out
    assert (left_out.network, left_out.batch, left_out.contestant) == ("net", 4, "fp32")
    assert "one request takes about 0.8" in left_out.reason
    assert set(by_name(results)) == {("fp32", 1), ("int8", 1), ("int8", 4)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"checkpoint": {"symbol": "other", "params": "other"}}, "its checkpoint differ"),
        ({"input": "other"}, "its input differ"),
        ({"environment": {"LD_PRELOAD": "libjemalloc.so"}}, "its environment differ"),
        ({"placements": [{"cpus": [0], "nodes": [0], "threads": 1}], "rounds": []}, "its placements differ"),
        ({"batch": 2}, "its suite differ"),
        ({"network": "other"}, "its suite differ"),
        ({"server": {"bound": 15, "rate": 1, "trials": []}}, "its latency bound differ"),
    ],
)
def test_results_of_another_run_are_neither_taken_nor_lost(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    bench(suite(), tmp_path, {"fp32": {}})
    path = tmp_path / "out" / "cells" / "net-b1-fp32.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    before = {file: file.read_bytes() for file in (tmp_path / "out").rglob("*.json")}
    with pytest.raises(UserError, match=words):
        bench(suite(), tmp_path, {"fp32": {}})
    assert {file: file.read_bytes() for file in (tmp_path / "out").rglob("*.json")} == before


def test_cells_of_which_the_disk_is_full_fail_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(cell: Cell, folder: Path) -> None:
        if cell.batch == 1:
            raise QuantkitError("no space left")
        write_cell(cell, folder)

    monkeypatch.setattr(runner, "write_cell", write)
    cells = by_name(bench(suite(batches=(1, 2)), tmp_path, {"fp32": {}}))
    assert cells["fp32", 1].failure == Failure("disk", None, "no space left") and cells["fp32", 1].rounds == ()
    assert cells["fp32", 2].failure is None
    assert [cell.batch for cell in read_results(tmp_path / "out").cells] == [2]


def test_a_run_that_cannot_go_on_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def inputs(self: FakeWorkload, batch: int) -> Path:
        raise QuantkitError("no space left")

    monkeypatch.setattr(FakeWorkload, "inputs", inputs)
    with pytest.raises(QuantkitError, match="no space left"):
        bench(suite(), tmp_path, {"fp32": {}})
    assert read_run(tmp_path / "out").state == "failed"
    assert children() == set()


def test_what_is_measured_already_is_not_called_left_out(tmp_path: Path) -> None:
    toy = suite(("fp32", "int8"))
    variants: dict[str, dict[str, Any]] = {"fp32": {"seconds": 0.2}, "int8": {}}
    first = bench(toy, tmp_path, variants)
    again = bench(toy, tmp_path, variants, budget=0.001 / 60)
    assert again.run.left_out == ()
    assert by_name(again) == by_name(first)


def test_time_that_others_did_not_need_goes_to_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_SLOW", 0.1)
    toy = suite(("fp32", "int8"), batches=(1, 2), networks=2)
    slow: dict[str, dict[str, Any]] = {"fp32": {"seconds": 0.4}, "int8": {}}
    # Its instances cannot even be loaded, so that it needs no time.
    broken = {variant: {"fault": "load:exit", "instance": 0} for variant in slow}
    told: list[str] = []
    results = bench(toy, tmp_path, slow, budget=11 / 60, told=told, others={"net1": broken})
    assert sum("left out net, batch 2, fp32" in text for text in told) == 1
    assert results.run.left_out == ()
    measured = {(cell.network, cell.batch, cell.contestant.name) for cell in results.cells if cell.rounds}
    assert measured == {("net", batch, name) for batch in (1, 2) for name in ("fp32", "int8")}
    assert sum("FAILED net1, batch 1, fp32" in text for text in told) == 1


def test_a_form_that_could_not_be_made_is_left_out(tmp_path: Path) -> None:
    toy = suite(("fp32", "stock-int8"), batches=(1, 2))
    told: list[str] = []
    results = bench(toy, tmp_path, {"fp32": {}}, told=told, obstacles={"stock-int8": "MXNet refuses it"})
    assert set(by_name(results)) == {("fp32", 1), ("fp32", 2)}
    assert [(each.batch, each.contestant, each.reason) for each in results.run.left_out] == [
        (batch, "stock-int8", "MXNet refuses it") for batch in (1, 2)
    ]
    assert sum(text.startswith("left out net, batch 1") for text in told) == 1


def test_a_cell_whose_form_can_no_longer_be_made_is_of_another_run(tmp_path: Path) -> None:
    toy = suite(("fp32", "stock-int8"))
    bench(toy, tmp_path, {"fp32": {}, "stock-int8": {}})
    with pytest.raises(UserError, match="its checkpoint differ"):
        bench(toy, tmp_path, {"fp32": {}}, obstacles={"stock-int8": "MXNet refuses it"})
