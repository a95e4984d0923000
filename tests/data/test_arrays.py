"""Arrays, .npz files, and the memory that files of both kinds take."""

from __future__ import annotations

import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.data.arrays import arrays, as_numpy
from quantkit.data.npz import npy_file, npz_file
from quantkit.data.samples import take
from quantkit.errors import DataError

Array = np.ndarray[Any, Any]

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 4, 5, 3), np.uint8)
FLOATS = np.random.default_rng(0).standard_normal((9, 3, 4, 5)).astype(np.float32)
LABELS = np.arange(9)[::-1].astype(np.uint8)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("x", [PIXELS, FLOATS])
@pytest.mark.parametrize("y", [None, LABELS, LABELS.astype(np.float32)])
def test_npz_gives_its_arrays(tmp_path: Path, save: Any, x: Array, y: Array | None) -> None:
    path = tmp_path / "data.npz"
    save(path, x=x, **({} if y is None else {"y": y}))
    samples = npz_file(path)
    assert samples.name == "data.npz" and len(samples) == 9
    for sample, image, label in zip(samples, x, LABELS):
        assert sample.image.dtype == x.dtype
        np.testing.assert_array_equal(sample.image, image)
        assert sample.label == (None if y is None else label)
    assert [sample.name for sample in samples][3] == "sample 3 of data.npz"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_and_arrays_give_the_same_choice(tmp_path: Path, save: Any) -> None:
    save(tmp_path / "data.npz", x=PIXELS, y=LABELS)
    for one, other in zip(take(npz_file(tmp_path / "data.npz"), 4), take(arrays(PIXELS, LABELS), 4)):
        np.testing.assert_array_equal(one.image, other.image)
        assert one.label == other.label


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_files_are_never_held_as_a_whole(tmp_path: Path, suffix: str) -> None:
    x, path = np.zeros((200, 3, 64, 64), np.float32), tmp_path / f"data{suffix}"
    if suffix == ".npz":
        np.savez_compressed(path, x=x)
    else:
        np.save(path, x)
    opened = npz_file if suffix == ".npz" else npy_file
    tracemalloc.start()
    for _ in opened(path):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes / 8


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (FLOATS.astype(np.float64), "float64"),
        (PIXELS.astype(np.int64), "int64"),
        (PIXELS[..., 0], r"uint8 of shape \(9, 4, 5\)"),
        (PIXELS.transpose(0, 3, 1, 2), r"uint8 of shape \(9, 3, 4, 5\)"),
        (FLOATS[:, 0, 0, 0], r"float32 of shape \(9,\)"),
    ],
)
def test_refuses_other_layouts(tmp_path: Path, x: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        arrays(x)
    np.savez(tmp_path / "data.npz", x=x)
    with pytest.raises(DataError, match=message):
        npz_file(tmp_path / "data.npz")


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("features", [(), (2,)])
def test_every_step_of_a_sequence_may_have_a_label(tmp_path: Path, dtype: type, features: tuple[int, ...]) -> None:
    x = np.arange(24).reshape(4, 6).astype(dtype) if not features else np.ones((4, 6, 2), np.float32)
    y = np.arange(24)[::-1].reshape(4, 6)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    for samples in (arrays(x, y), npz_file(tmp_path / "data.npz")):
        for sample, sequence, labels in zip(samples, x, y):
            np.testing.assert_array_equal(sample.image, sequence)
            np.testing.assert_array_equal(sample.label, labels)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros((4, 5), int), r"y of arrays has shape \(4, 5\), but there are 4 samples of 6 steps"),
        (np.zeros((3, 6), int), r"y of arrays has shape \(3, 6\)"),
        (np.full((4, 6), -1), "label -1 of step 0 of sample 0"),
        (np.full((4, 6), 0.5), r"label 0\.5 of step 0 of sample 0"),
    ],
)
def test_refuses_labels_that_fit_no_step(y: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        arrays(np.zeros((4, 6), np.int64), y)


@pytest.mark.parametrize("x", [np.zeros((4, 0), np.int64), np.zeros((4, 0, 3), np.float32)])
def test_refuses_empty_sequences(x: Array) -> None:
    with pytest.raises(DataError, match="its sequences are empty; give sequences of one step or more"):
        arrays(x)


def test_refuses_sequences_of_different_lengths() -> None:
    ragged = [[1, 2, 3], [1, 2]]
    with pytest.raises(DataError, match="pad or cut sequences to one length"):
        arrays(np.array(ragged, dtype=object))
    with pytest.raises(DataError, match="pad or cut sequences to one length"):
        as_numpy(ragged)


@pytest.mark.parametrize("y", [LABELS[:8], LABELS[:, None], LABELS - 0.5, LABELS.astype(int) - 1, np.array(["a"] * 9)])
def test_refuses_labels_that_do_not_fit(tmp_path: Path, y: Array) -> None:
    with pytest.raises(DataError, match="label"):
        arrays(PIXELS, y)
    np.savez(tmp_path / "data.npz", x=PIXELS, y=y)
    with pytest.raises(DataError, match="label"):
        npz_file(tmp_path / "data.npz")


def test_refuses_npz_without_x(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", images=PIXELS)
    with pytest.raises(DataError, match="holds images, but no array 'x'"):
        npz_file(tmp_path / "data.npz")


def test_refuses_objects_and_fortran_order(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.array([{}, {}], dtype=object))
    with pytest.raises(DataError, match="object"):
        npz_file(tmp_path / "data.npz")
    np.savez(tmp_path / "data.npz", x=PIXELS, y=np.array([{}] * 9, dtype=object))
    with pytest.raises(DataError, match=r"array 'y' of .* is object"):
        npz_file(tmp_path / "data.npz")
    np.savez(tmp_path / "data.npz", x=np.asfortranarray(PIXELS))
    with pytest.raises(DataError, match="Fortran"):
        npz_file(tmp_path / "data.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not an archive", b"x" * 1000])
def test_refuses_other_files(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"data\.npz"):
        npz_file(tmp_path / "data.npz")


def test_damage_at_any_place_is_an_error_or_changes_nothing_unseen(tmp_path: Path) -> None:
    """Cut off and altered files never end in anything but samples or a DataError."""
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=PIXELS, y=LABELS)
    whole = path.read_bytes()
    failures = 0
    for place in range(0, len(whole), 23):
        altered = whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]
        for content in (whole[:place], altered):
            path.write_bytes(content)
            try:
                list(npz_file(path))
            except DataError:
                failures += 1
    assert failures > len(whole) // 23


def test_an_array_that_ends_too_early(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    np.save(tmp_path / "x.npy", PIXELS)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", (tmp_path / "x.npy").read_bytes()[:-10])
    with pytest.raises(DataError, match="needs 540 bytes, and there are 530"):
        npz_file(path)
