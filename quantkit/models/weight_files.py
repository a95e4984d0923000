"""Reading weights from a local file: ``.params``, ``.npz`` or ``.safetensors``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from quantkit.errors import DataError, ModelError
from quantkit.formats.mxnet.params import read_params
from quantkit.formats.npz import read_npz
from quantkit.formats.safetensors import read_safetensors


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a weights file, by their names in it.

    Raises:
        ModelError: the file is missing, damaged, or of another kind (pickles run code when
            loaded and are not read).
    """
    readers = {".params": read_params, ".npz": _read_npz, ".safetensors": read_safetensors}
    reader = readers.get(path.suffix)
    if reader is None:
        raise ModelError(f"cannot read weights from {path}: give a file that ends in {', '.join(readers)}")
    return reader(path)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        return read_npz(path)
    except DataError as error:
        raise ModelError(f"cannot read weights: {error}") from error
