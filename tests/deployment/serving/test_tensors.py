"""Tensors of the protocol, from bytes and lists and back."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.deployment.serving.tensors import BYTES, Tensor, tensor_bytes, tensor_of_bytes, tensor_of_list
from quantkit.errors import DataError

TYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
    "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP16": np.float16, "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip


@pytest.mark.parametrize("datatype", TYPES)
def test_numbers_are_the_same_after_bytes_and_lists(datatype: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(TYPES[datatype])
    for nested in (values.tolist(), values.ravel().tolist()):
        tensor = tensor_of_list("x", datatype, (2, 3), nested)
        again = tensor_of_bytes("x", datatype, (2, 3), tensor_bytes(tensor))
        for each in (tensor, again):
            assert isinstance(each.values, np.ndarray)
            assert each.values.dtype == values.dtype
            np.testing.assert_array_equal(each.values, values)
    assert tensor.listed() == values.ravel().tolist()


def test_elements_follow_their_lengths() -> None:
    elements = (b"", b"a" * 300, b"\0\1")
    tensor = tensor_of_list("x", BYTES, (3,), list(elements))
    content = tensor_bytes(tensor)
    assert content[:4] == bytes(4)
    assert content[4:8] == (300).to_bytes(4, "little")
    assert tensor_of_bytes("x", BYTES, (3,), content).values == elements


@pytest.mark.parametrize(
    ("datatype", "shape", "elements", "message"),
    [
        ("FP32", (2,), [1.0], r"'x' has shape \[2\] and 1 values"),
        ("FP32", (2, 2), [[1.0], [1.0, 2.0]], r"'x' has shape \[2, 2\] and 3 values"),
        ("FP32", (2,), [[1.0], 1.0], "lists of several depths"),
        ("FP32", (1,), ["1"], "not all numbers"),
        ("FP32", (1,), [None], "not all numbers"),
        ("FP32", (1,), [{}], "not all numbers"),
        ("UINT8", (1,), [256], "not all numbers of type UINT8"),
        ("UINT8", (1,), [-1], "not all numbers of type UINT8"),
        ("INT8", (1,), [1.5], "not all numbers of type INT8"),
        ("INT64", (1,), [2**70], "not all numbers of type INT64"),
        ("FP32", (0, 2**31 - 1, 2**31 - 1, 2**31 - 1), [], "which is too large"),
        ("FP8", (1,), [1.0], "'x' has datatype 'FP8'; there are BOOL,"),
        (BYTES, (2,), [b"a"], r"'x' has shape \[2\] and 1 values"),
    ],
)
def test_what_a_list_does_not_hold(datatype: str, shape: tuple[int, ...], elements: list, message: str) -> None:
    with pytest.raises(DataError, match=message):
        tensor_of_list("x", datatype, shape, elements)


@pytest.mark.parametrize(
    ("datatype", "shape", "content", "message"),
    [
        ("FP32", (1,), b"abc", "the 3 bytes of input 'x' are no whole number of FP32"),
        ("FP32", (2,), b"abcd", r"'x' has shape \[2\] and 1 values"),
        (BYTES, (1,), b"\5\0\0\0abcd", "an element of input 'x' ends beyond its bytes"),
        (BYTES, (1,), b"\5\0", r"'x' has shape \[1\] and 0 values"),
        (BYTES, (2,), b"\0\0\0\0", r"'x' has shape \[2\] and 1 values"),
        (BYTES, (1,), bytes(40), r"'x' has shape \[1\] and 2 values"),
        (BYTES, (70_000,), bytes(280_000), "has 70000 elements; give at most 65536"),
    ],
)
def test_what_bytes_do_not_hold(datatype: str, shape: tuple[int, ...], content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        tensor_of_bytes("x", datatype, shape, content)


def test_an_empty_batch_of_integers_is_read() -> None:
    tensor: Tensor = tensor_of_list("x", "INT64", (0, 3), [])
    assert isinstance(tensor.values, np.ndarray)
    assert tensor.values.shape == (0, 3)
    assert tensor.values.dtype == np.int64
