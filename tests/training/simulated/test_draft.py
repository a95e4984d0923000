"""Rounding to integers in training graphs: the values, and gradients against the formulas of LSQ."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.calibration.ranges import Range
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.names import Names
from quantkit.quantization.arithmetic import LIMITS, DType
from quantkit.quantization.plan import QuantizationPlan, TensorQuantization
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.simulation.rounding import rounded
from quantkit.training.simulated.draft import TrainingDraft
from quantkit.training.simulated.ranges import range_groups
from tests.training.simulated.on_engine import run_draft

pytestmark = pytest.mark.usefixtures("engine")

X = Tensor("x")
VALUES = np.random.default_rng(0).normal(scale=2.0, size=(3, 4, 5)).astype(np.float32)
GRADIENT = np.random.default_rng(1).normal(size=VALUES.shape).astype(np.float32)


def rounding(dtype: DType, log_range: float = 0.0) -> tuple[TrainingDraft, Tensor, TensorQuantization]:
    """A draft that rounds a parameter ``x`` and makes real numbers of its integers again, with their tensor."""
    form = TensorQuantization(Range(0.0 if dtype == "uint8" else -2.7, 2.9), dtype)
    network = QuantizedGraph(Graph((), (), (X,), {"x": VALUES}), QuantizationPlan({}, {X: form}))
    names, shapes = Names(network.graph.names), {X: VALUES[:1].shape}
    (group,) = range_groups(network, shapes, names)
    params = {"x": VALUES, group.parameter: np.array([log_range], np.float32)}
    growth = {X: group.factor}
    draft = TrainingDraft(names, list(group.nodes), params, network=network, shapes=shapes, growth=growth)
    integers = draft.as_integers(X)
    return draft, draft.scaled("real", X, integers.values, integers.scale.step), form


@pytest.mark.parametrize("dtype", LIMITS)
def test_values_are_those_of_the_simulation(dtype: DType) -> None:
    draft, real, form = rounding(dtype)
    (found,), _ = run_draft(draft, [real])
    # They may differ in the last digit, since the interpreter divides by the step.
    np.testing.assert_allclose(found, rounded(VALUES, form), rtol=2e-7)


def lsq(form: TensorQuantization, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The derivatives of rounded values by the values and by the scale; equations 3 and 5 of LSQ."""
    low, high = LIMITS[form.dtype]
    steps = VALUES.astype(np.float64) / scale
    inside = (low < steps) & (steps < high)
    return inside.astype(float), np.where(inside, np.rint(steps) - steps, np.where(steps <= low, low, high))


@pytest.mark.parametrize("log_range", [0.0, -0.7, 0.4])
@pytest.mark.parametrize("dtype", LIMITS)
def test_gradients_are_those_of_lsq(dtype: DType, log_range: float) -> None:
    draft, real, form = rounding(dtype, log_range)
    _, found = run_draft(draft, [real], GRADIENT)
    scale = form.params.scale * np.exp(log_range)
    by_value, by_scale = lsq(form, scale)
    np.testing.assert_allclose(found["x"], GRADIENT * by_value, rtol=1e-6)
    factor = 1 / np.sqrt(VALUES[0].size * LIMITS[dtype][1])
    # By the logarithm of the scale.
    parts = factor * scale * GRADIENT * by_scale
    # It is the difference of two sums of float32, those of integers and of the values in steps.
    steps = factor * scale * np.abs(GRADIENT * rounded(VALUES, form) / scale).sum()
    np.testing.assert_allclose(found["x_log_range"], [parts.sum()], rtol=1e-5, atol=1e-6 * steps)


def test_a_tensor_is_rounded_once_for_each_type() -> None:
    draft, _, form = rounding("uint8")
    assert draft.as_integers(X) is draft.as_integers(X, form)
    signed = TensorQuantization(form.range, "int8")
    assert draft.as_integers(X, signed) is draft.as_integers(X, signed) is not draft.as_integers(X)
