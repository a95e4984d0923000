"""Sample images in an ``.npz`` file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from quantkit.data.arrays import check_layout, labels_of
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError

_NPY: Any = np.lib.format


def npz_file(path: Path) -> Samples:
    """The samples in ``x`` of an ``.npz`` file, with the class indices ``y`` where the file has them.

    ``x`` is as for ``arrays``. It is read through sample by sample and never held as a whole.

    Raises:
        DataError: the file cannot be read or holds anything else (iterating finds damaged contents).
    """
    with _opened(path) as archive:
        names = archive.namelist()
        if "x.npy" not in names:
            found = ", ".join(name[: -len(".npy")] for name in names) or "nothing"
            raise DataError(f"{path} holds {found}, but no array 'x'; save it with numpy.savez(path, x=..., y=...)")
        with archive.open("x.npy") as file:
            shape, dtype = _header(file, path)
        labels = None
        if "y.npy" in names:
            with archive.open("y.npy") as file:
                labels = labels_of(_NPY.read_array(file, allow_pickle=False), shape[0], path.name)

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        length = int(np.prod(shape[1:])) * dtype.itemsize
        with _opened(path) as archive, archive.open("x.npy") as file:
            _header(file, path)
            start = file.tell()
            for position in positions:
                file.seek(start + position * length)
                content = file.read(length)
                if len(content) < length:
                    raise DataError(f"{path} ends inside sample {position} of {shape[0]}; save it again")
                image = np.frombuffer(content, dtype).reshape(shape[1:])
                label = None if labels is None else labels[position]
                yield Sample(image, label, f"sample {position} of {path.name}")

    return Samples(path.name, read, shape[0])


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive at ``path``; what goes wrong inside it is an error of the data."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (OSError, EOFError, ValueError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"cannot read {path}: {reason}; save it again with numpy.savez(path, x=..., y=...)") from error


def _header(file: IO[bytes], path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and the dtype of the array in ``file``, which is then at its first value."""
    version = _NPY.read_magic(file)
    readers = {(1, 0): _NPY.read_array_header_1_0, (2, 0): _NPY.read_array_header_2_0}
    if version not in readers:
        raise DataError(f"x in {path} has the .npy version {version}, which is not known here; save it again")
    shape, fortran_order, dtype = readers[version](file)
    check_layout(dtype, shape, f"x in {path}")
    if fortran_order:
        raise DataError(f"x in {path} is stored in Fortran order; save numpy.ascontiguousarray(x)")
    return shape, dtype
