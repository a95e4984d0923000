"""Samples in ``.npz`` and ``.npy`` files, read one by one and never held as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from math import prod
from pathlib import Path
from typing import IO, Optional

import numpy as np

from quantkit.data.arrays import check_alike, check_layout, labels_of
from quantkit.data.joined_inputs import record_of
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.files.files import as_text
from quantkit.formats.npz import Archive, Header, opened_npy, opened_npz

_SHOWN = 8

_FLOATS = (np.float32,)
_NUMBERS = (np.float32, np.int32, np.int64)


def npz_file(path: Path) -> Samples:
    """The samples in ``x`` of an ``.npz`` file, with the class indices ``y`` if the file has them.

    ``x`` has the layout of ``arrays``. A file without ``x``, or with other arrays of samples beside it, is for a
    network with several inputs: all these arrays have their names, see ``arrays_by_name``. ``y`` is an input, too, if
    it holds floating-point numbers of two axes or more.

    Raises:
        DataError: the file cannot be read, unpacks to more than ``opened_npz`` allows, or does not hold samples
            (damaged contents show while iterating).
    """
    with opened_npz(path) as archive:
        names = _inputs(archive)
        headers = {name: archive.header(name) for name in names}
        if len(names) < 2 and names != ("x",):
            held = ", ".join(archive.names[:_SHOWN]) or "nothing"
            raise DataError(
                f"{path} holds {held}, but no array 'x'; save it with numpy.savez(path, x=..., y=...), or, for a "
                "network with several inputs, with an array for each by its name"
            )
        if names == ("x",):
            check_layout(headers["x"].dtype, headers["x"].shape, f"x in {path}")
            samples = headers["x"].shape
        else:
            forms = {name: (header.dtype, header.shape) for name, header in headers.items()}
            samples = (check_alike(forms, as_text(path.name)),)
        for name, header in headers.items():
            _check_order(header, f"{name} in {path}")
        labels = labels_of(archive.read("y"), samples, path.name) if "y" in set(archive.names) - set(names) else None

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        with opened_npz(path) as archive, ExitStack() as opened:
            files = {name: opened.enter_context(archive.values(name)) for name in names}
            for position in positions:
                values = {name: _values(file, headers[name], position, path) for name, file in files.items()}
                label = None if labels is None else labels[position]
                sample = values["x"] if names == ("x",) else record_of(values)
                yield Sample(sample, label, f"sample {position} of {path.name}")

    return Samples(as_text(path.name), read, samples[0])


def _inputs(archive: Archive) -> tuple[str, ...]:
    """The names of the arrays of samples."""
    apart = [name for name in archive.names if name not in ("x", "y")]
    if "x" in archive.names:
        number = archive.header("x").shape[:1]
        apart = ["x", *(name for name in apart if _may_be_input(archive, name, _NUMBERS, number))]
    named_y = ["y"] if "y" in archive.names and _may_be_input(archive, "y", _FLOATS, None) else []
    return (*apart, *named_y)


def _may_be_input(
    archive: Archive, name: str, dtypes: tuple[type[np.generic], ...], number: Optional[tuple[int, ...]]
) -> bool:
    """Whether an array that may be something else has the form of a network's input, for so many samples."""
    try:
        header = archive.header(name)
    except DataError:
        return False
    return header.dtype in dtypes and len(header.shape) >= 2 and number in (None, header.shape[:1])


def npy_file(path: Path) -> Samples:
    """The samples in an ``.npy`` file, without labels; the array has the layout of ``arrays``.

    Raises:
        DataError: the file cannot be read, or does not hold samples.
    """
    with opened_npy(path) as (header, _):
        check_layout(header.dtype, header.shape, str(path))
        _check_order(header, str(path))

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        with opened_npy(path) as (_, file):
            for position in positions:
                yield Sample(_values(file, header, position, path), None, f"sample {position} of {path.name}")

    return Samples(as_text(path.name), read, header.shape[0])


def _check_order(header: Header, where: str) -> None:
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
