"""Arrays as bytes."""

from __future__ import annotations

import io

import numpy as np
import pytest

from quantkit.cluster.arrays import from_bytes, to_bytes

ARRAYS = {"a/b": np.arange(6).reshape(2, 3), "c": np.array(True), "d": np.empty((0, 4))}


def test_arrays_come_back_as_they_were() -> None:
    again = from_bytes(to_bytes(ARRAYS))
    assert list(again) == list(ARRAYS)
    for name, values in ARRAYS.items():
        np.testing.assert_array_equal(again[name], values, strict=True)
    assert to_bytes(ARRAYS) == to_bytes(again)


def test_objects_that_run_code_are_refused() -> None:
    objects = {"a": np.array([print], object)}
    with pytest.raises(ValueError, match="allow_pickle=False"):
        to_bytes(objects)
    with io.BytesIO() as stream, pytest.raises(ValueError, match="allow_pickle=False"):
        np.savez(stream, **objects)
        from_bytes(stream.getvalue())
