"""What INT8 costs recurrent networks: the figures of rows, and how they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Union

import numpy as np
import pytest


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The rows of a classifier of 40 sequences, with what ONNX Runtime's dynamic quantization puts out, or why not."""
    import recurrent_accuracy

    random = np.random.default_rng(0)
    exact = random.normal(size=(40, 5)).astype(np.float32)
    noise = random.normal(size=exact.shape).astype(np.float32)
    given = np.zeros(0)
    task = recurrent_accuracy.Task("net", None, given, given, exact.argmax(axis=1), exact)

    def made(dynamic: Union[float, str]) -> list[Any]:
        def outputs(task: Any, peers: Any) -> Iterator[tuple[str, Union[np.ndarray, str]]]:
            yield "FP32", exact
            yield "own", exact + 0.1 * noise
            yield "ONNX Runtime dynamic", dynamic if isinstance(dynamic, str) else exact + dynamic * noise
            yield "broken", "exit code 1"

        monkeypatch.setattr(recurrent_accuracy, "task_of", lambda name: task)
        monkeypatch.setattr(recurrent_accuracy, "_outputs", outputs)
        return list(recurrent_accuracy.rows("net", None))

    return made


@pytest.mark.parametrize(("dynamic", "farther"), [(0.05, True), (0.2, False)])
def test_divergences_are_compared_sequence_by_sequence(rows: Any, dynamic: float, farther: bool) -> None:
    exact, own, other, broken = rows(dynamic)
    less, low, high = own.less_dynamic
    assert less == pytest.approx(own.divergence[0] - other.divergence[0])
    # The noise is the same, so that the difference is more certain than either divergence.
    assert low <= less <= high and (low > 0 if farther else high < 0)
    assert (exact.value, exact.divergence, exact.less_dynamic, other.less_dynamic) == (1.0, None, None, None)
    assert broken.failure == "exit code 1" and broken.value is None


def test_without_dynamic_quantization_there_is_nothing_to_compare_with(rows: Any) -> None:
    _, own, other, _ = rows("exit code 2")
    assert own.divergence is not None and own.less_dynamic is None
    assert other.failure == "exit code 2"


def test_every_row_has_a_cell_for_each_column(rows: Any) -> None:
    from dataclasses import asdict

    from recurrent_accuracy import COLUMNS, lines

    found = list(lines([asdict(row) for row in rows(0.2)]))
    assert {line.count("|") for line in found} == {len(COLUMNS) + 1}
    assert found[0] == "| net | FP32 | accuracy | 100.00 % |  |  |  |  |"
    assert found[-1] == "| net | broken | accuracy | failed: exit code 1 | | | | |"
