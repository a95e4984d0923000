"""Sample images from Python iterables of batches: Gluon data loaders and MXNet data iterators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from quantkit.data.arrays import arrays_by_name, as_numpy, check_layout, labels_of, numpy_by_name
from quantkit.data.samples import Sample, Samples, picked
from quantkit.errors import DataError


def data_loader(batches: Iterable[Any], name: str = "data loader") -> Samples:
    """The samples in ``batches``: each batch is an array of samples, or a pair of that and their labels.

    The arrays are NumPy's, or have ``asnumpy()`` (MXNet's), with the layout of ``arrays``. For networks with several
    inputs, a dictionary of arrays by their names takes the place of the array of samples. Each iteration
    starts from the beginning; an iterator, such as a generator, continues instead. Taking N takes the first N.

    Raises:
        DataError: while iterating: a batch is neither, labels do not fit, or an iterator's sample was read before.
    """

    def stream() -> Iterator[Sample]:
        start = 0
        for batch in batches:
            pair = batch if isinstance(batch, (list, tuple)) else (batch,)
            if not 1 <= len(pair) <= 2:
                raise DataError(f"a batch of {name} has {len(pair)} parts; give data, or data and labels")
            y = as_numpy(pair[1]) if len(pair) == 2 else None
            if isinstance(pair[0], Mapping):
                several = numpy_by_name(pair[0], f"a batch of {name}")
                samples = arrays_by_name(several, y, name, start)
                yield from samples.read(range(len(samples)))
                start += len(samples)
                continue
            x = as_numpy(pair[0])
            yield from _split(x, y, start, name)
            start += len(x)

    if iter(batches) is batches:
        return Samples(name, _ReadOnce(stream(), name).read, None, any_order=True)
    return _streamed(name, stream)


def data_iter(batches: Any, name: str = "data iterator") -> Samples:
    """The samples that an MXNet ``DataIter`` gives, from ``reset()`` to its end, without padding.

    Raises:
        DataError: while iterating: as for ``data_loader``, or another iteration has begun.
    """
    inputs = [str(entry[0]) for entry in batches.provide_data]
    newest = 0

    def stream() -> Iterator[Sample]:
        nonlocal newest
        newest = own = newest + 1
        batches.reset()
        start = 0
        while True:
            if own != newest:
                raise DataError(
                    f"{name} was restarted before an earlier iteration ended, and both share one position; "
                    "let one end first"
                )
            try:
                batch = batches.next()
            except StopIteration:
                return
            parts = [as_numpy(values) for values in batch.data]
            kept = len(parts[0]) - (batch.pad or 0)
            y = as_numpy(batch.label[0])[:kept] if batch.label else None
            if len(inputs) == 1:
                yield from _split(parts[0][:kept], y, start, name)
            else:
                samples = arrays_by_name({key: part[:kept] for key, part in zip(inputs, parts)}, y, name, start)
                yield from samples.read(range(kept))
            start += kept

    return _streamed(name, stream)


class _ReadOnce:
    """Samples that can be read only once, by ascending position."""

    def __init__(self, stream: Iterator[Sample], name: str) -> None:
        self._stream = stream
        self._name = name
        self._next = 0
        self._last: tuple[Sample, ...] = ()
        self._failure: Exception | None = None

    def read(self, positions: Iterable[int]) -> Iterator[Sample]:
        """See ``Samples.read``; the last sample can be read again, and a failure is raised again."""
        for position in positions:
            if position < self._next - 1:
                raise DataError(
                    f"sample {position} of {self._name} was read before, and an iterator gives each only once; give "
                    "something that can be iterated again, such as a list or a DataLoader"
                )
            while self._next <= position:
                sample = self._read()
                if sample is None:
                    return
                self._last, self._next = (sample,), self._next + 1
            yield from self._last

    def _read(self) -> Sample | None:
        if self._failure is not None:
            raise self._failure
        try:
            return next(self._stream, None)
        except Exception as error:
            self._failure = error
            raise


def _streamed(name: str, stream: Any) -> Samples:
    """Samples that can only be read in sequence from the start."""
    return Samples(name, lambda positions: picked(stream(), positions), None, any_order=True)


def _split(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any] | None, start: int, name: str) -> Iterator[Sample]:
    """The samples of one batch, which begins at sample ``start``."""
    check_layout(x.dtype, x.shape, f"a batch of {name}")
    labels = None if y is None else labels_of(y, x.shape, name)
    for index, image in enumerate(x):
        # A copy, so that the sample does not keep the whole batch alive.
        yield Sample(image.copy(), None if labels is None else labels[index], f"sample {start + index} of {name}")
