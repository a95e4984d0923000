"""The integers of INT8 LSTM layers, against the engine's own rule and exact sums."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.ir.recurrent_layer import Matrices
from quantkit.quantization.arithmetic import QuantParams
from quantkit.quantization.recurrent_weights import (
    STATE_ZERO_POINT,
    added_columns,
    engine_matrices,
    kernel_zero_point,
    recurrent_integers,
)

STATE = QuantParams(0.9 / 127.5, "int8")
DATA = {"int8": QuantParams(4.0 / 127.5, "int8"), "uint8": QuantParams(3.0 / 255.5, "uint8")}
SHAPES = [(6, 4), (5, 4), (1, 3), (7, 7)]


def weights(features: int, hidden: int, seed: int = 0) -> Matrices:
    random = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    rows = 4 * hidden
    return Matrices(normal(rows, features), normal(rows, hidden), normal(rows), normal(rows))


def engine_integers(matrices: Matrices) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What MXNet makes of float weights: 127 over the largest of a row of both matrices, rounded; and the scales."""
    both = np.concatenate([matrices.of_input, matrices.of_state], axis=1)
    factor = (np.float32(127) / np.abs(both).max(axis=1)).astype(np.float32)
    first, second = (np.rint(part * factor[:, None]).astype(int) for part in (matrices.of_input, matrices.of_state))
    return first, second, 1 / factor.astype(np.float64)


@pytest.mark.parametrize("dtype", DATA)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_engine_makes_the_integers_of_the_plan(shape: tuple[int, int], dtype: str) -> None:
    own = weights(*shape)
    integers = recurrent_integers(own, DATA[dtype], STATE)
    first, second, scale = engine_integers(engine_matrices(own, integers, DATA[dtype], STATE))
    np.testing.assert_array_equal(first[:, : shape[0]], integers.of_input)
    np.testing.assert_array_equal(second, integers.of_state)
    np.testing.assert_allclose(scale, integers.scale, rtol=1e-6)
    assert first.shape[1] - shape[0] == added_columns(integers)


@pytest.mark.parametrize("dtype", DATA)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_two_neighbours_overflow(shape: tuple[int, int], dtype: str) -> None:
    own = weights(*shape)
    integers = recurrent_integers(own, DATA[dtype], STATE)
    first, second, _ = engine_integers(engine_matrices(own, integers, DATA[dtype], STATE))
    zero = kernel_zero_point(DATA[dtype])
    largest = np.full(first.shape[1], 255)
    largest[shape[0] :] = zero
    for matrix, inputs in ((first, largest), (second, np.full(second.shape[1], 255))):
        products = matrix * inputs
        padded = np.pad(products, ((0, 0), (0, products.shape[1] % 2)))
        assert np.abs(padded[:, ::2] + padded[:, 1::2]).max() <= 32767


@pytest.mark.parametrize("dtype", DATA)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_engine_computes_the_gates_of_the_plan(shape: tuple[int, int], dtype: str) -> None:
    """Gates by the engine's arithmetic, one scale and zero point for all it reads, are those of data and state."""
    data, own, random = DATA[dtype], weights(*shape), np.random.default_rng(1)
    integers = recurrent_integers(own, data, STATE)
    prepared = engine_matrices(own, integers, data, STATE)
    first, second, scale = engine_integers(prepared)
    zero = kernel_zero_point(data)
    read = random.integers(0, 256, (3, shape[0]))
    padded = np.pad(read, ((0, 0), (0, first.shape[1] - shape[0])), constant_values=zero)
    state = random.integers(0, 256, (3, shape[1]))
    sums = (padded - STATE_ZERO_POINT) @ first.T + (state - STATE_ZERO_POINT) @ second.T
    gates = sums * (scale * STATE.scale) + prepared.input_bias + prepared.state_bias
    real = integers.scale * np.float64(STATE.scale)
    exact = (read - zero) @ integers.of_input.astype(int).T + (state - 128) @ integers.of_state.astype(int).T
    np.testing.assert_allclose(gates, exact * real + own.input_bias + own.state_bias, rtol=1e-4, atol=1e-3)


def test_integers_stand_for_the_weights() -> None:
    own = weights(6, 4)
    integers = recurrent_integers(own, DATA["int8"], STATE)
    step = integers.scale[:, None] / 2 + 1e-6
    # Sums of rows are kept, so a weight may be rounded to its second nearest integer.
    wanted = own.of_input * np.float32(DATA["int8"].scale / STATE.scale)
    assert (np.abs(integers.of_input * integers.scale[:, None] - wanted) <= 2 * step).all()
    assert (np.abs(integers.of_state * integers.scale[:, None] - own.of_state) <= 2 * step).all()


def test_rows_that_cannot_overflow_have_no_column_added() -> None:
    hidden = 2
    own = Matrices(
        np.tile(np.float32([1, 0]), (8, 1)),
        np.zeros((8, hidden), np.float32),
        np.zeros(8, np.float32),
        np.zeros(8, np.float32),
    )
    integers = recurrent_integers(own, DATA["int8"], STATE)
    assert added_columns(integers) == 0
    assert (integers.of_input[:, 0] == 127).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_two_gates_may_have_one_scale(shape: tuple[int, int]) -> None:
    """Their rows keep what they stand for within half a step, or a step where rows keep their sums; none overflow."""
    own, data = weights(*shape), DATA["uint8"]
    integers = recurrent_integers(own, data, STATE, one_scale=True)
    apart = recurrent_integers(own, data, STATE)
    entering, forgetting, *others = np.split(integers.scale, 4)
    np.testing.assert_array_equal(entering, forgetting)
    assert (np.maximum(*np.split(apart.scale, 4)[:2]) <= 1.0051 * entering).all()
    np.testing.assert_array_equal(others, np.split(apart.scale, 4)[2:])
    for matrix, exact in (
        (integers.of_input, own.of_input * (data.scale / STATE.scale)),
        (integers.of_state, own.of_state),
    ):
        assert (np.abs(matrix - exact / integers.scale[:, None]) < 1.01).all()
        pairs = np.pad(matrix.astype(int), ((0, 0), (0, matrix.shape[1] % 2)))
        assert np.abs(pairs[:, ::2] + pairs[:, 1::2]).max() <= 128
