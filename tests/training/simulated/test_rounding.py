"""Rounding half to even with the gradient of the identity."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.ir.graph import Tensor
from quantkit.training.simulated.rounding import half_even, saturated, with_gradient_of
from tests.training.simulated.on_engine import draft, run_draft

pytestmark = pytest.mark.usefixtures("engine")

VALUES = Tensor("values")
HALVES = np.arange(-300, 300.25, 0.25)


def gradient(values: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).normal(size=values.shape).astype(values.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_halves_are_rounded_to_even(dtype: str) -> None:
    below, above = np.nextafter(HALVES, -np.inf, dtype=dtype), np.nextafter(HALVES, np.inf, dtype=dtype)
    values = np.concatenate([HALVES, below, above]).astype(dtype)
    made = draft(values=values)
    (found,), _ = run_draft(made, [half_even(made, "rounded", VALUES, dtype)])
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.rint(values))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_pass_straight_through(dtype: str) -> None:
    values = HALVES.astype(dtype)
    made = draft(values=values)
    _, found = run_draft(made, [half_even(made, "rounded", VALUES, dtype)], gradient(values))
    np.testing.assert_array_equal(found["values"], gradient(values))


def test_what_is_saturated_has_no_gradient() -> None:
    values = HALVES.astype(np.float32)
    made = draft(values=values)
    (found,), gradients = run_draft(made, [saturated(made, "rounded", VALUES, -128, 127)], gradient(values))
    np.testing.assert_array_equal(found, np.rint(values).clip(-128, 127))
    np.testing.assert_array_equal(gradients["values"], gradient(values) * ((values >= -128) & (values <= 127)))


def test_values_take_the_gradient_of_others() -> None:
    values = HALVES.astype(np.float32)
    made = draft(values=values, others=(values * 1e6).astype(np.float32))
    result = with_gradient_of(made, "result", VALUES, Tensor("others"))
    (found,), gradients = run_draft(made, [result], gradient(values))
    np.testing.assert_array_equal(found, values)
    np.testing.assert_array_equal(gradients["others"], gradient(values))
    assert not gradients["values"].any()
