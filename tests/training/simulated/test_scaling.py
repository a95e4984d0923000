"""Channels times factors."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.ir.graph import Tensor
from quantkit.training.simulated.scaling import scaled, scaled_alike
from tests.training.simulated.on_engine import draft, run_draft

pytestmark = pytest.mark.usefixtures("engine")

VALUES, FACTORS = Tensor("values"), Tensor("factors")
SHAPES = [(5, 16, 9, 9), (2, 3, 4, 5, 6), (7, 10), (1, 33, 40, 1), (2, 6, 5)]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_those_of_float32(shape: tuple[int, ...]) -> None:
    channels, column = shape[1], (1, -1, *(1,) * (len(shape) - 2))
    values, factors, gradient = 1e5 * normal(*shape), normal(channels), normal(*shape[::-1]).reshape(shape)
    made = draft(values=values, factors=factors)
    (found,), gradients = run_draft(made, [scaled(made, "product", VALUES, FACTORS, channels)], gradient)
    np.testing.assert_array_equal(found, values * factors.reshape(column))
    np.testing.assert_array_equal(gradients["values"], gradient * factors.reshape(column))
    wanted = (gradient.astype(np.float64) * values).sum(axis=(0, *range(2, len(shape))))
    np.testing.assert_allclose(gradients["factors"], wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("shape", SHAPES)
def test_one_factor_for_all_channels(shape: tuple[int, ...]) -> None:
    values, factor, gradient = normal(*shape), np.array([0.7], np.float32), normal(*shape[::-1]).reshape(shape)
    made = draft(values=values, factors=factor)
    (found,), gradients = run_draft(made, [scaled_alike(made, "product", VALUES, FACTORS, shape[1])], gradient)
    np.testing.assert_array_equal(found, values * factor)
    np.testing.assert_allclose(gradients["factors"], [(gradient * values).sum(dtype=np.float64)], rtol=1e-4)


def test_constants_are_shared_and_not_trained() -> None:
    made = draft(values=normal(2, 3, 4, 4), factors=normal(3))
    for _ in range(2):
        scaled(made, "product", VALUES, FACTORS, 3)
    assert made.params.keys() - {"values", "factors"} == made.reasons.keys()
    assert len(made.reasons) == 3
