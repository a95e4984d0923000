"""What INT8 costs networks with a task: the figures are those of ``evaluate_task``, also for outputs from elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import quantkit as qk


class _Peers:
    """Peers that run files as MXNet does, and quantize to NaN or not at all."""

    def __init__(self, exact: list[np.ndarray]) -> None:
        self._exact = exact

    def fp32(self, model: Any, test: np.ndarray) -> list[Any]:
        from accuracy_peers import PeerResult

        assert test.shape == (400, 3, 96, 96)
        return [PeerResult("P", "P FP32", tuple(self._exact))]

    def own_file(self, quantized: Any, test: np.ndarray) -> list[Any]:
        from accuracy_peers import PeerResult
        from task_accuracy import run_all

        return [PeerResult("P", "P FP32", tuple(run_all(quantized.graph, test)))]

    def int8(self, model: Any, calibration: np.ndarray, test: np.ndarray) -> list[Any]:
        from accuracy_peers import PeerResult

        assert calibration.shape == (64, 3, 96, 96)
        nothing = tuple(np.full_like(each, np.nan) for each in self._exact)
        return [PeerResult("P", "P of NaN", nothing), PeerResult("P", "P broken", "exit code 1")]


@pytest.mark.long
@pytest.mark.parametrize(("name", "metric"), [("digits_ssd", "VOC12 mAP"), ("digits_fcn", "mIoU")])
def test_figures_are_those_of_the_task(
    name: str, metric: str, int8_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import task_accuracy

    monkeypatch.setattr(task_accuracy, "PRESETS", ("none",))
    trial = task_accuracy.trial_of(name)
    exact, as_it_is, own, elsewhere, of_nan, broken = task_accuracy.rows(trial, _Peers(list(trial.exact)))
    config = qk.QuantizationConfig(num_samples=64, preset="none")
    quantized = qk.quantize(trial.model, trial.calibration, config)
    evaluation = qk.evaluate_task(quantized, "scenes:test", reference=trial.model)
    agreed, drop = evaluation.agreement["network"][0], evaluation.drops["reference"]
    for row, role in ((exact, "reference"), (own, "network"), (elsewhere, "network")):
        found = evaluation.scores[role][0]
        assert row.score == found.name == metric
        assert row.value == pytest.approx((found.value, found.low, found.high))
    assert (exact.loss, exact.agreement) == (None, None)
    for row in (own, elsewhere):
        assert row.agreement == pytest.approx((agreed.value, agreed.low, agreed.high))
        assert row.loss == pytest.approx((drop.points, drop.low, drop.high))
    assert elsewhere.quantizer == "quantkit none, in P"
    assert (as_it_is.value, as_it_is.loss) == (exact.value, (0, 0, 0))
    # Detections of NaN are none; maps of NaN tell nothing.
    assert of_nan.value == (0, 0, 0) if name == "digits_ssd" else "NaN" in of_nan.failure
    assert (broken.quantizer, broken.failure, broken.value) == ("P broken", "exit code 1", None)


def test_a_page_has_a_line_for_each_row() -> None:
    from task_accuracy import lines

    given = [
        {"network": "net", "quantizer": "FP32", "score": "mIoU", "value": [0.5, 0.25, 0.75]},
        {"network": "net", "quantizer": "Q", "score": "mIoU", "value": [0.5, 0.25, 0.75], "loss": [0.5, -0.25, 1],
         "agreement": [1, 1, 1]},
        {"network": "net", "quantizer": "R", "failure": "exit code 1"},
    ]  # fmt: skip
    assert list(lines(given)) == [
        "| net | FP32 | mIoU | 50.00 [25.00, 75.00] |  |  |",
        "| net | Q | mIoU | 50.00 [25.00, 75.00] | +0.50 [-0.25, +1.00] | 100.00 [100.00, 100.00] |",
        "| net | R | failed: exit code 1 | | | |",
    ]
