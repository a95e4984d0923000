"""Opening sample data of any kind by one name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, Union, runtime_checkable

import numpy as np

from quantkit.data import builtin
from quantkit.data.arrays import arrays, arrays_by_name, as_numpy, numpy_by_name
from quantkit.data.folder import images_folder
from quantkit.data.loaders import data_iter, data_loader
from quantkit.data.npz import npy_file, npz_file
from quantkit.data.object_store import is_address
from quantkit.data.record import is_packed, record_file
from quantkit.data.samples import Samples
from quantkit.data.scenes import scene_images
from quantkit.data.voc import is_voc, voc_images
from quantkit.errors import DataError


class NDArrayLike(Protocol):
    """An array of another library that gives itself as NumPy's, such as MXNet's NDArray."""

    def asnumpy(self) -> np.ndarray:
        """The values as a NumPy array."""


@runtime_checkable
class DataIter(Protocol):
    """MXNet's ``DataIter``, as far as it is used."""

    @property
    def provide_data(self) -> Sequence[object]:
        """The names and shapes of what a batch holds."""

    def reset(self) -> None:
        """Begin again."""


Array = Union[np.ndarray, NDArrayLike]

Arrays = Union[Array, Mapping[str, Array]]

DataSource = Union[Samples, str, "os.PathLike[str]", Arrays, tuple[Arrays, Array], DataIter, Iterable[object]]
"""What sample data can be given as; see ``load_data``."""

_KINDS = (
    "a folder of images, of shards or of VOC's form (FOLDER:SPLIT for one split of its labels.csv, or of VOC), a COCO "
    "file "
    "(.json), an .npz, .npy or .rec file, the address of a folder of shards in an object store (s3://...), "
    "'builtin', 'digits:train', 'digits:test', 'scenes:train' or 'scenes:test'"
)


def load_data(spec: DataSource) -> Samples:
    """The samples that ``spec`` names or holds.

    By name (``str`` or path): ``builtin`` (photographs), ``digits:train``, ``digits:test``, ``scenes:train``,
    ``scenes:test`` (digits over photographs), a folder of images, of VOC's form or of shards (as ``quantkit pack``
    writes it), a folder of the first two kinds and a split of its ``labels.csv`` or of VOC, as in ``photos:test``, a
    COCO file (``.json``), an ``.npz`` file, an ``.npy`` file, a ``.rec`` file, or the address of a folder of shards in
    an object store, as in ``s3://bucket/shards``. In Python also an array, a pair of arrays (samples, labels), a Gluon
    ``DataLoader`` or another iterable of batches, an MXNet ``DataIter``, or ``Samples``, which come back
    as they are. For networks with several inputs, a dictionary of arrays by the inputs' names takes the place of an
    array of samples.

    Raises:
        DataError: it does not exist, is of no known kind, or cannot be read.
        SamplesUnavailable: an object store cannot be reached, or fails.
        ExtraMissing: a package is not installed that an address needs.
    """
    if isinstance(spec, Samples):
        return spec
    if isinstance(spec, (str, os.PathLike)):
        return _named(os.fspath(spec))
    if _is_array(spec):
        return arrays(as_numpy(spec))
    if isinstance(spec, Mapping):
        return arrays_by_name(numpy_by_name(spec, "arrays"))
    if isinstance(spec, tuple) and len(spec) == 2 and _is_array(spec[1]):
        if isinstance(spec[0], Mapping):
            return arrays_by_name(numpy_by_name(spec[0], "arrays"), as_numpy(spec[1]))
        if _is_array(spec[0]):
            return arrays(as_numpy(spec[0]), as_numpy(spec[1]))
    if isinstance(spec, tuple) and len(spec) == 2 and (_is_array(spec[0]) or isinstance(spec[0], Mapping)):
        raise DataError(
            f"the labels are of type {type(spec[1]).__name__}; give them as an array: (samples, numpy.asarray(labels))"
        )
    if isinstance(spec, DataIter):
        return data_iter(spec)
    if isinstance(spec, Iterable):
        return data_loader(spec)
    raise DataError(f"{type(spec).__name__} is no sample data; give {_KINDS}, arrays, a DataLoader or a DataIter")


def _named(spec: str) -> Samples:
    """The samples of a name, with their address: the name, of files under their absolute path."""
    if is_address(spec):
        return _stored(spec)
    head, colon, split = spec.rpartition(":")
    if spec == "builtin" or head in ("digits", "scenes"):
        return replace(_shipped(spec, head, split), address=spec)
    return replace(_in_files(spec, head, colon, split), address=absolute(spec))


def absolute(spec: str) -> str:
    """The name of samples in files under their absolute path."""
    folder, _, split = spec.rpartition(":")
    return os.path.abspath(spec) if os.path.exists(spec) else f"{os.path.abspath(folder)}:{split}"


def _shipped(spec: str, head: str, split: str) -> Samples:
    if spec == "builtin":
        return builtin.photographs()
    return builtin.digits(split) if head == "digits" else scene_images(split)


def _in_files(spec: str, head: str, colon: str, split: str) -> Samples:
    path = Path(spec)
    folder, part = (path, None) if spec and os.path.isdir(path) else (Path(head), split)
    if (spec and os.path.isdir(path)) or (colon and os.path.isdir(head)):
        if part is None and is_packed(folder):
            return _packed_folder(folder)
        return voc_images(folder, part) if is_voc(folder) else images_folder(folder, part)
    if not os.path.isfile(path):
        raise DataError(f"there is no sample data {spec!r}; give {_KINDS}")
    kinds = {".npz": npz_file, ".npy": npy_file, ".rec": record_file, ".json": _coco_images}
    if path.suffix.lower() not in kinds:
        raise DataError(f"{spec!r} is no sample data of a known kind; give {_KINDS}")
    return kinds[path.suffix.lower()](path)


def _coco_images(path: Path) -> Samples:
    # Imported late: pydantic takes a tenth of a second to import.
    from quantkit.data.coco import coco_images

    return coco_images(path)


def _packed_folder(folder: Path) -> Samples:
    from quantkit.data.packed import packed_folder

    return packed_folder(folder)


def _stored(address: str) -> Samples:
    from quantkit.data.packed import stored_samples

    return stored_samples(address)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "asnumpy")
