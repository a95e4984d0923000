from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from quantkit.backends.base import Inputs
from quantkit.backends.mxnet.execute import run
from quantkit.diagnosis.parity.outputs import Demand, OutputParity, output_parity, parity_of
from quantkit.errors import EngineError
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
