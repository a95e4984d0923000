"""Named arrays as bytes, in NumPy's .npz form: nothing in them runs code when it is read."""

from __future__ import annotations

import io
import zipfile

import numpy as np

from quantkit.data.aggregation import Partial


def to_bytes(arrays: Partial) -> bytes:
    """The arrays, compressed: counts in histograms are mostly zero. Equal arrays give equal bytes.

    Raises:
        ValueError: an array holds Python objects.
    """
    with io.BytesIO() as stream:
        # NumPy's own writer compresses at zlib's sixth level, in three times the time for a sixth less.
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            for name, array in arrays.items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.save(entry, array, allow_pickle=False)
        return stream.getvalue()


def from_bytes(content: bytes) -> Partial:
    """The arrays that ``to_bytes`` was given.

    Raises:
        ValueError: it is something else, or holds Python objects.
        zipfile.BadZipFile: it is damaged.
    """
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
