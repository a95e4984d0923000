"""The logs that LoadGen leaves: what they say of a run, and all that can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.measuring import loadgen
from quantkit.benchmark.results.results import ServerTrial
from quantkit.errors import InstanceError, QuantkitError

LOG = {
    **{f"result_{level}.00_percentile_latency_ns": 20_000_000 for level in (50, 90, 99)},
    "result_perf_constraints_met": True, "result_min_duration_met": True, "result_min_queries_met": True,
    "early_stopping_met": True, "result_validity": "VALID", "result_query_count": 500, "num_errors": 0,
}  # fmt: skip
INVALID = {"result_validity": "INVALID"}


def read(folder: Path, log: dict[str, Any], errors: dict[str, Any] | None = None, bound: float = 25) -> ServerTrial:
    lines = [
        f":::MLLOG {json.dumps({'key': key, 'value': value, 'metadata': {'is_error': key in (errors or {})}})}\n"
        for key, value in {**log, **(errors or {})}.items()
    ]
    (folder / "mlperf_log_detail.txt").write_text("".join(lines))
    (folder / "mlperf_log_summary.txt").write_text("Result is : INVALID\n  A new demand satisfied : NO\n=====")
    return loadgen._read(folder, 50, bound)


def test_logs_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(QuantkitError, match="cannot be read"):
        loadgen._read(tmp_path, 10, 50)


@pytest.mark.parametrize("unmet", ["result_min_duration_met", "result_min_queries_met", "early_stopping_met"])
def test_a_run_that_was_only_short_counts(tmp_path: Path, unmet: str) -> None:
    assert read(tmp_path, LOG).valid
    assert not read(tmp_path, {**LOG, **INVALID, unmet: False}).valid


def test_a_run_above_the_bound_counts_as_such(tmp_path: Path) -> None:
    assert not read(tmp_path, {**LOG, **INVALID, "result_perf_constraints_met": False}, bound=15).valid


@pytest.mark.parametrize(
    ("log", "errors", "reason"),
    [
        ({**LOG, **INVALID}, {}, "A new demand satisfied : NO"),
        ({**LOG, **INVALID, "result_perf_constraints_met": False}, {}, "A new demand"),
        ({**LOG, "early_stopping_met": False}, {}, "VALID, with 0 errors"),
        ({**LOG, "num_errors": 2}, {}, "VALID, with 2 errors"),
        (LOG, {"error_runtime": "it broke"}, "error_runtime: it broke"),
        ({**LOG, "result_validity": "UNSURE"}, {}, "A new demand"),
    ],
)
def test_a_run_that_is_invalid_for_another_reason_is_refused(
    tmp_path: Path, log: dict[str, Any], errors: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InstanceError, match=f"not for its length alone: .*{reason}"):
        read(tmp_path, log, errors)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        *(("result_99.00_percentile_latency_ns", wrong) for wrong in ("x", None, [], {}, float("nan"), 10**400)),
        *(("result_query_count", wrong) for wrong in ("x", None, [], {}, float("nan"), float("inf"))),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_log_with_other_values_is_refused(tmp_path: Path, key: str, wrong: Any) -> None:
    with pytest.raises(QuantkitError, match="not complete or of another version"):
        read(tmp_path, {**LOG, key: wrong})


@pytest.mark.parametrize(
    "line", ["", "x", "null", "[]", "7", "{}", '{"key": [], "value": 1, "metadata": {"is_error": false}}',
             '{"key": "a", "value": 1, "metadata": 7}', "[" * 100_000, "\0"],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
def test_a_line_of_another_form_is_refused(tmp_path: Path, line: str) -> None:
    assert read(tmp_path, LOG).valid
    with (tmp_path / "mlperf_log_detail.txt").open("a") as file:
        file.write(f":::MLLOG {line}\n")
    with pytest.raises(QuantkitError, match="not complete or of another version"):
        loadgen._read(tmp_path, 50, 25)


@pytest.mark.parametrize("name", ["mlperf_log_detail.txt", "mlperf_log_summary.txt"])
def test_logs_that_are_no_text_are_refused(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, LOG).valid
    (tmp_path / name).write_bytes(b"\xff")
    with pytest.raises(QuantkitError, match="are no text"):
        loadgen._read(tmp_path, 50, 25)


@pytest.mark.parametrize("missing", list(LOG))
def test_a_log_without_a_verdict_or_a_condition_is_refused(tmp_path: Path, missing: str) -> None:
    with pytest.raises(QuantkitError, match="not complete or of another version"):
        read(tmp_path, {key: value for key, value in LOG.items() if key != missing})
