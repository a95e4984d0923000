"""Samples in ``.npz`` and ``.npy`` files, read one by one and never held as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import IO

import numpy as np

from quantkit.data.arrays import check_alike, check_layout, labels_of
from quantkit.data.joined_inputs import record_of
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.files.files import as_text
from quantkit.formats.npz import Header, opened_npy, opened_npz


def npz_file(path: Path) -> Samples:
    """The samples in ``x`` of an ``.npz`` file, with the class indices ``y`` if the file has them.

    ``x`` has the layout of ``arrays``. A file without ``x`` holds samples of a network with several inputs: all arrays
    but ``y`` have their names, see ``arrays_by_name``.

    Raises:
        DataError: the file cannot be read, unpacks to more than ``opened_npz`` allows, or does not hold samples
            (damaged contents show while iterating).
    """
    with opened_npz(path) as archive:
        names = ("x",) if "x" in archive.names else tuple(name for name in archive.names if name != "y")
        headers = {name: archive.header(name) for name in names}
        if len(names) < 2 and "x" not in names:
            held = ", ".join(archive.names) or "nothing"
            raise DataError(
                f"{path} holds {held}, but no array 'x'; save it with numpy.savez(path, x=..., y=...), or, for a "
                "network with several inputs, with an array for each by its name"
            )
        for name, header in headers.items():
            _check(header, f"x in {path}" if name == "x" else f"input {name!r} in {path}, which has no array 'x',")
        number = check_alike({name: (header.dtype, header.shape) for name, header in headers.items()}, str(path))
        samples = headers[names[0]].shape if names == ("x",) else (number,)
        labels = labels_of(archive.read("y"), samples, path.name) if "y" in archive.names else None

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        with opened_npz(path) as archive, ExitStack() as opened:
            files = {name: opened.enter_context(archive.values(name)) for name in names}
            for position in positions:
                values = {name: _values(file, headers[name], position, path) for name, file in files.items()}
                label = None if labels is None else labels[position]
                sample = values["x"] if names == ("x",) else record_of(values)
                yield Sample(sample, label, f"sample {position} of {path.name}")

    return Samples(as_text(path.name), read, number)


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
