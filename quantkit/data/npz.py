"""Samples in ``.npz`` and ``.npy`` files, read one by one and never held as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from quantkit.data.arrays import check_layout, labels_of
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.files.files import as_text
from quantkit.formats.npz import Header, opened_npy, opened_npz

_SHOWN = 8


def npz_file(path: Path) -> Samples:
    """The samples in ``x`` of an ``.npz`` file, with the class indices ``y`` if the file has them.

    ``x`` has the layout of ``arrays``.

    Raises:
        DataError: the file cannot be read, unpacks to more than ``opened_npz`` allows, or does not hold samples
            (damaged contents show while iterating).
    """
    with opened_npz(path) as archive:
        if "x" not in archive.names:
            names = ", ".join(archive.names[:_SHOWN]) or "nothing"
            raise DataError(f"{path} holds {names}, but no array 'x'; save it with numpy.savez(path, x=..., y=...)")
        header = archive.header("x")
        _check(header, f"x in {path}")
        labels = labels_of(archive.read("y"), header.shape, path.name) if "y" in archive.names else None

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        with opened_npz(path) as archive, archive.values("x") as file:
            for position in positions:
                label = None if labels is None else labels[position]
                yield Sample(_values(file, header, position, path), label, f"sample {position} of {path.name}")

    return Samples(as_text(path.name), read, header.shape[0])


def npy_file(path: Path) -> Samples:
    """The samples in an ``.npy`` file, without labels; the array has the layout of ``arrays``.

    Raises:
        DataError: the file cannot be read, or does not hold samples.
    """
    with opened_npy(path) as (header, _):
        _check(header, str(path))

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        with opened_npy(path) as (_, file):
            for position in positions:
                yield Sample(_values(file, header, position, path), None, f"sample {position} of {path.name}")

    return Samples(as_text(path.name), read, header.shape[0])


def _check(header: Header, where: str) -> None:
    check_layout(header.dtype, header.shape, where)
    if header.fortran_order:
        raise DataError(f"{where} is stored in Fortran order; save it as numpy.ascontiguousarray makes it")


def _values(file: IO[bytes], header: Header, position: int, path: Path) -> np.ndarray:
    """One sample of an array, whose ``.npy`` file is open."""
    number, *shape = header.shape
    length = prod(shape) * header.dtype.itemsize
    file.seek(header.start + position * length)
    content = file.read(length)
    if len(content) < length:
        raise DataError(f"{path} ends inside sample {position} of {number}; save it again")
    return np.frombuffer(content, header.dtype).reshape(shape)
