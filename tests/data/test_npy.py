""".npy files as sample data: one array, without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.data.npz import npy_file
from quantkit.data.samples import take
from quantkit.data.sources import load_data
from quantkit.errors import DataError

RANDOM = np.random.default_rng(0)
KINDS = {
    "pixels": RANDOM.integers(0, 256, (9, 4, 5, 3), np.uint8),
    "preprocessed": RANDOM.standard_normal((9, 3, 4, 5)).astype(np.float32),
    "vectors": RANDOM.standard_normal((9, 6)).astype(np.float32),
    "sequences": RANDOM.standard_normal((9, 6, 2)).astype(np.float32),
    "tokens": RANDOM.integers(0, 11, (9, 6)),
}


@pytest.mark.parametrize("x", KINDS.values(), ids=KINDS.keys())
def test_it_gives_its_array(x: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x)
    samples = load_data(tmp_path / "x.npy")
    assert (samples.name, len(samples)) == ("x.npy", 9)
    assert [sample.label for sample in samples] == [None] * 9
    np.testing.assert_array_equal(np.stack([sample.image for sample in samples]), x)
    assert next(iter(samples)).image.dtype == x.dtype
    chosen = [int(sample.name.split()[1]) for sample in take(samples, 4)]
    np.testing.assert_array_equal(np.stack([sample.image for sample in take(samples, 4)]), x[chosen])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (KINDS["sequences"].astype(np.float64), r"x\.npy is float64 of shape \(9, 6, 2\); give uint8"),
        (np.asfortranarray(KINDS["sequences"]), "stored in Fortran order; save it as numpy.ascontiguousarray"),
        (np.zeros((4, 0), np.int64), "its sequences are empty"),
        (np.float32(1), r"float32 of shape \(\)"),
        (np.array([{}, {}], dtype=object), "is object; only numbers are read; pad or cut sequences to one length"),
        (np.array(["a"]), "only numbers are read"),
    ],
)
def test_other_arrays_are_refused(x: Any, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(DataError, match=message):
        load_data(tmp_path / "x.npy")


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, KINDS["tokens"])
    whole = path.read_bytes()
    samples = npy_file(path)
    path.write_bytes(whole[:-10])
    with pytest.raises(DataError, match="its shape needs 432 bytes, and there are 422"):
        list(samples)
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot read .*x\.npy"):
        npy_file(path)
