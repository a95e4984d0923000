"""What is written into an array of the engine's is what it reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.input_memory import InputMemory

RANDOM = np.random.default_rng(0)


@pytest.fixture
def nd(engine: None) -> Any:
    return load_mxnet().nd


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8"])
def test_a_batch_is_read_as_it_was_written(nd: Any, dtype: str) -> None:
    array = nd.zeros((3, 2, 5), dtype=dtype)
    memory = InputMemory(array)
    for _ in range(3):
        batch = RANDOM.integers(0, 100, (3, 2, 5)).astype(dtype)
        memory.write(batch)
        np.testing.assert_array_equal(array.asnumpy(), batch)


def test_a_short_batch_is_filled_with_its_last_sample(nd: Any) -> None:
    array = nd.zeros((4, 2))
    InputMemory(array).write(np.float32([[1, 2], [3, 4]]))
    np.testing.assert_array_equal(array.asnumpy(), [[1, 2], [3, 4], [3, 4], [3, 4]])


def test_views_are_copied(nd: Any) -> None:
    array, whole = nd.zeros((2, 3, 4)), RANDOM.normal(size=(2, 4, 3)).astype(np.float32)
    InputMemory(array).write(whole.transpose(0, 2, 1))
    np.testing.assert_array_equal(array.asnumpy(), whole.transpose(0, 2, 1))


def test_what_was_in_a_layout_of_the_engines_is_written_in_its_own(nd: Any) -> None:
    data = nd.array(RANDOM.normal(size=(2, 16, 8, 8)))
    weight = nd.array(RANDOM.normal(size=(16, 16, 3, 3)))
    array = nd.Convolution(data, weight, kernel=(3, 3), num_filter=16, no_bias=True)
    batch = RANDOM.normal(size=array.shape).astype(np.float32)
    memory = InputMemory(array)
    memory.write(batch)
    np.testing.assert_array_equal(array.asnumpy(), batch)
    np.testing.assert_allclose((array + 1).asnumpy(), batch + 1)
