"""Sample images in an ``.npz`` file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import numpy as np

from quantkit.data.arrays import check_layout, labels_of
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.files.files import as_text
from quantkit.formats.npz import opened_npz

_SHOWN = 8


def npz_file(path: Path) -> Samples:
    """The samples in ``x`` of an ``.npz`` file, with the class indices ``y`` if the file has them.

    ``x`` has the layout of ``arrays``. It is read sample by sample and never held as a whole.

    Raises:
        DataError: the file cannot be read, unpacks to more than ``opened_npz`` allows, or does not hold samples
            (damaged contents show while iterating).
    """
    with opened_npz(path) as archive:
        if "x" not in archive.names:
            names = ", ".join(archive.names[:_SHOWN]) or "nothing"
            raise DataError(f"{path} holds {names}, but no array 'x'; save it with numpy.savez(path, x=..., y=...)")
        header = archive.header("x")
        shape, dtype = header.shape, header.dtype
        check_layout(dtype, shape, f"x in {path}")
        if header.fortran_order:
            raise DataError(f"x in {path} is stored in Fortran order; save numpy.ascontiguousarray(x)")
        labels = labels_of(archive.read("y"), shape, path.name) if "y" in archive.names else None

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        length = prod(shape[1:]) * dtype.itemsize
        with opened_npz(path) as archive, archive.values("x") as file:
            for position in positions:
                file.seek(header.start + position * length)
                content = file.read(length)
                if len(content) < length:
                    raise DataError(f"{path} ends inside sample {position} of {shape[0]}; save it again")
                image = np.frombuffer(content, dtype).reshape(shape[1:])
                label = None if labels is None else labels[position]
                yield Sample(image, label, f"sample {position} of {path.name}")

    return Samples(as_text(path.name), read, shape[0])
