"""The page of the zoo: what it says of a network, and what it counts."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from quantkit.diagnosis.coverage import Left
from tests.suites.zoo_rows_made import COVERED, REVISION, lines, quantized, refused, stands


def test_a_row_has_all_stages() -> None:
    expected = "| net | pose | 3x8x8 | 9 of 10 | 97.5 | 0.9876 | 2.0e-07 | 0.99991, 9 | EngineError: a \\| b |  | "
    expected += "3.2 of 12 | 61 of 900 |"
    assert expected in lines(quantized())


def test_a_network_that_stopped_says_where() -> None:
    from zoo_rows import Row

    row = asdict(Row("net", "pose", "3x8x8", problem="ModelError: give\nanother", seconds=1.0, revision=REVISION))
    assert "| net | pose | 3x8x8 |  |  |  |  |  |  | ModelError: give another | 0.0 of 0 | 1 of 0 |" in lines(row)


def test_sorted_lists_have_no_cosine_with_mxnet() -> None:
    from zoo_rows import InEngine

    row = quantized(cosine=None, engines={"onnxruntime": InEngine(None, 9)})
    assert "| net | pose | 3x8x8 | 9 of 10 | 97.5 |  | 2.0e-07 | sorted, 9 |  |  | 3.2 of 12 | 61 of 900 |" in lines(
        row
    )


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


@pytest.mark.parametrize(("names", "told"), [(332, True), (1, False)])
def test_names_that_are_not_measured_yet_are_counted(names: int, told: bool) -> None:
    from zoo_page import page

    document = {"command": "python x", "host": {}, "names": names, "rows": [quantized()]}
    assert ("Not measured yet: 331 names of GluonCV's zoo." in page(document)) == told


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


@pytest.mark.parametrize(("vnni", "told"), [("no", True), ("yes", False)])
def test_the_page_tells_of_sums_that_saturate(vnni: str, told: bool) -> None:
    written = lines(quantized(network="a", host={"cpu": "y", "vnni": vnni}), quantized(network="b"))
    assert any("without VNNI, sums of two products saturate" in line for line in written) == told


def test_each_network_below_the_goal_says_why() -> None:
    little = replace(COVERED, int8_macs=280, left=(Left("no kernel", 3, 80), Left("too wide", 1, 40)))
    rows = (quantized(network="a", engines={}), quantized(), quantized(network="b", coverage=little, engines={}))
    written = lines(*rows, refused(network="c"))
    (start,) = [place for place, line in enumerate(written) if line.startswith("Networks that stop early")]
    assert written[start + 4 : start + 8] == [
        "| net | 97.5 | no kernel (2.5); openvino: EngineError: a \\| b |",
        "| b | 70.0 | no kernel (20.0); too wide (10.0) |",
        "| c |  | ModelError: a \\| b |",
        "",
    ]
