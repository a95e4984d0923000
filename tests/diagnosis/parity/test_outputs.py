from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from quantkit.backends.base import Inputs
from quantkit.backends.mxnet.execute import run
from quantkit.diagnosis.parity.outputs import Demand, OutputParity, output_parity, parity_of
from quantkit.errors import EngineError
from quantkit.evaluation.measure import Score
from quantkit.tasks.agreement import agreement_for
from quantkit.tasks.box_agreement import BoxAgreement
from tests.networks import images, residual_v1


class Changed:
    """A session that computes what MXNet does, and then something more."""

    inputs = ("data",)

    def __init__(self, change: object) -> None:
        self.change = change

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        return [self.change(run(residual_v1(), inputs)[0])]  # type: ignore[operator]


def parity(change: object) -> OutputParity:
    return output_parity(residual_v1(), Changed(change), [images(4), images(3, seed=2)], 4, True)


def test_the_same_outputs(engine: None) -> None:
    outputs = parity(lambda output: output)
    assert (outputs.images, outputs.same) == (7, 7)
    assert outputs.cosine == pytest.approx(1)
    assert outputs.steps < 0.01
    assert outputs.ok


def test_deviations_are_counted_in_steps_of_the_image_s_largest_output(engine: None) -> None:
    def second_image_off_by_three(output: np.ndarray) -> np.ndarray:
        changed = output.copy()
        changed[1, 5] += 3 * np.abs(output[1]).max() / 127
        return changed

    assert parity(second_image_off_by_three).steps == pytest.approx(3, rel=1e-3)


def test_another_network_fails(engine: None) -> None:
    outputs = parity(lambda output: output[:, ::-1])
    assert outputs.cosine < 0.9
    assert not outputs.ok


@pytest.mark.parametrize("images", [1, 4, 32, 100, 1000])
def test_changed_predictions_fail_where_chance_does_not_explain_them(images: int) -> None:
    for changed in range(images + 1):
        likelihood = binomtest(changed, images, 0.05, alternative="greater").pvalue
        assert OutputParity(images, images - changed, 0.9999, 1.0).ok is bool(likelihood >= 0.01)


def test_as_much_may_change_as_int8_itself_changes() -> None:
    strict, lenient = Demand(), Demand(0.9, 0.5)
    assert not OutputParity(100, 60, 0.95, 1.0, strict).ok
    assert OutputParity(100, 60, 0.95, 1.0, lenient).ok
    assert not OutputParity(100, 30, 0.95, 1.0, lenient).ok


def test_what_is_no_class_score_has_no_top1() -> None:
    random = np.random.default_rng(0)
    maps = random.normal(size=(3, 4, 5, 6)).astype(np.float32)
    outputs = parity_of([([maps], [maps[..., ::-1].copy()])], False)
    assert (outputs.images, outputs.same) == (3, None)
    assert not outputs.ok
    assert parity_of([([maps], [maps + np.float32(1e-4)])], False).ok
    assert parity_of([([maps[:, :, :1, :1]], [maps[:, :, :1, :1]])], True).same == 3


def test_the_output_that_is_furthest_away_counts() -> None:
    one, other = np.random.default_rng(0).normal(size=(2, 3, 8)).astype(np.float32)
    assert parity_of([([one, other], [one, other])], False).ok
    outputs = parity_of([([one, other], [one, other[:, ::-1].copy()])], False)
    assert outputs.cosine < 0.9 and outputs.steps > 10


def test_a_missing_output_is_an_error() -> None:
    one = np.ones((1, 2), np.float32)
    with pytest.raises(EngineError, match="has 1 outputs where MXNet has 2"):
        parity_of([([one, one], [one])], False)


def test_a_low_cosine_fails() -> None:
    assert not OutputParity(100, 100, 0.997, 1.0).ok


@pytest.mark.parametrize(
    "change", [lambda output: output * np.float32(np.nan), lambda output: output[:, :3], lambda output: output[:1]]
)
def test_outputs_that_cannot_be_compared_are_described(engine: None, change: object) -> None:
    with pytest.raises(EngineError, match=r"the ONNX file computes values of shape .* where MXNet"):
        parity(change)


def detections_of(*batches: list[np.ndarray]) -> OutputParity:
    """MXNet's detections against those of another engine, which are given for each batch."""
    task = agreement_for("detection", [(2, 1), (2, 1), (2, 4)], (3, 20, 20), "net", ("cat", "dog"))
    assert task is not None and task.unordered
    return parity_of([(DETECTED, each) for each in batches], False, Demand(), task)


BOXES = np.array([[[0, 0, 8, 8], [10, 10, 18, 18]]], np.float32)
DETECTED = [np.array([[[0], [1]]], np.float32), np.array([[[0.9], [0.8]]], np.float32), BOXES]


def test_detections_may_come_in_another_order_but_not_lie_elsewhere() -> None:
    turned = detections_of([each[:, ::-1].copy() for each in DETECTED])
    assert turned.cosine < 0.9 and turned.score is not None and turned.score.value == 1.0 and turned.ok
    assert turned.boxes == BoxAgreement(2, 2, 1.0, 0.0, 0.0)
    assert not detections_of([*DETECTED[:2], BOXES + np.float32(6)]).ok
    # Nothing that one could see: the values decide.
    nothing = [np.full_like(DETECTED[0], -1), np.full_like(DETECTED[1], -1), BOXES]
    task = agreement_for("detection", [(2, 1), (2, 1), (2, 4)], (3, 20, 20), "net")
    assert parity_of([(nothing, nothing)], False, Demand(), task).ok
    task = agreement_for("detection", [(2, 1), (2, 1), (2, 4)], (3, 20, 20), "net")
    assert not parity_of([(nothing, [*nothing[:2], BOXES[:, ::-1].copy()])], False, Demand(), task).ok


def test_boxes_that_are_decoded_wrongly_fail_whatever_their_score() -> None:
    shifted = detections_of([*DETECTED[:2], BOXES + np.float32(1)])
    assert shifted.score is not None and shifted.score.value == 1.0
    assert shifted.boxes is not None and shifted.boxes.overlap == pytest.approx(49 / 79) and not shifted.ok
    near = detections_of([*DETECTED[:2], BOXES + np.float32(0.2)])
    assert near.boxes is not None and near.boxes.edges == pytest.approx(0.2, rel=1e-5) and near.ok


def test_maps_need_their_score_and_their_values() -> None:
    maps = np.random.default_rng(0).normal(size=(8, 3, 6, 6)).astype(np.float32)

    def compared(other: np.ndarray) -> OutputParity:
        task = agreement_for("segmentation", [(3, 6, 6)], (3, 12, 12), "net")
        return parity_of([([maps], [other])], False, Demand(cosine=0.5), task)

    assert compared(maps).ok
    swapped = maps.copy()
    swapped[:, :, :3] = maps[:, ::-1, :3]
    assert compared(swapped).cosine > 0.5 and not compared(swapped).ok
    assert OutputParity(8, None, 0.99, 1.0, Demand(0.9, score=0.5), Score("mIoU", 0.4, 0.3, 0.5)).ok
    assert not OutputParity(8, None, 0.99, 1.0, Demand(0.9, score=0.5), Score("mIoU", 0.4, 0.3, 0.49)).ok
