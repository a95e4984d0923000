"""The integers of INT8 LSTM layers, against the engine's own rule and exact sums."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.ir.recurrent_layer import Matrices
from quantkit.quantization.arithmetic import QuantParams
from quantkit.quantization.recurrent_weights import (
    STATE_ZERO_POINT,
    RecurrentIntegers,
    added_columns,
    engine_matrices,
    kernel_zero_point,
    real_matrices,
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
    assert not engine_sums_overflow(integers, DATA[dtype])


def engine_sums_overflow(integers: RecurrentIntegers, data: QuantParams) -> bool:
    """Whether products of two neighbours that the engine adds in 16 bits may leave them."""
    features, hidden = integers.of_input.shape[1], integers.of_state.shape[1]
    biases = np.zeros(4 * hidden, np.float32)
    own = Matrices(integers.of_input, integers.of_state, biases, biases)
    first, second, _ = engine_integers(engine_matrices(own, integers, data, STATE))
    largest = np.full(first.shape[1], 255)
    largest[features:] = kernel_zero_point(data)
    for matrix, inputs in ((first, largest), (second, np.full(second.shape[1], 255))):
        products = matrix * inputs
        padded = np.pad(products, ((0, 0), (0, products.shape[1] % 2)))
        if np.abs(padded[:, ::2] + padded[:, 1::2]).max() > 32767:
            return True
    return False


@pytest.mark.parametrize("dtype", DATA)
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_that_are_multiples_of_their_scales_keep_their_integers(shape: tuple[int, int], dtype: str) -> None:
    random, (features, hidden) = np.random.default_rng(2), shape
    of_input, of_state = (random.integers(-127, 128, (4 * hidden, width)).astype(np.int8) for width in shape)
    scale = random.uniform(1e-3, 1e-1, 4 * hidden).astype(np.float32)
    integers = RecurrentIntegers(of_input, of_state, scale)
    real = real_matrices(integers, weights(features, hidden), DATA[dtype], STATE)
    np.testing.assert_array_equal(real.state_bias, weights(features, hidden).state_bias)
    np.testing.assert_allclose(real.of_state, of_state * scale[:, None], rtol=1e-6)
    again = recurrent_integers(real, DATA[dtype], STATE, scale)
    np.testing.assert_array_equal(again.of_input, of_input)
    np.testing.assert_array_equal(again.of_state, of_state)
    assert again.scale is scale


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
