"""Batches: samples as a network reads them, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from quantkit.data.prefetch import prefetched
from quantkit.data.preparation import Preparation, network_input
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError
from quantkit.host.threads import worker_threads

# More samples than any set holds; ``islice`` counts up to 63 bits.
_MOST = 2**31


@dataclass(frozen=True, eq=False)
class Batch:
    """Some samples as a network reads them.

    ``data`` is float32 of shape (samples, ...), ``labels`` int64 of shape (samples,), (samples, steps) where every
    step of a sequence has one, or None if they are unknown; ``names`` are those of the samples in messages.
    """

    data: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any] | None
    names: tuple[str, ...]


def batches(
    samples: Samples,
    preparation: Preparation,
    input_shape: Sequence[int],
    batch_size: int,
    limit: int | None = None,
    classes: int | None = None,
    workers: int | None = None,
) -> Generator[Batch, None, None]:
    """``samples``, or the first ``limit`` of them, preprocessed and in batches; the last may be smaller.

    ``input_shape`` is that of one sample, without the batch axis. Images are preprocessed, token ids
    checked; float32 samples are used as they are. Memory holds one batch, and the samples of the next one,
    which ``workers`` background threads prepare meanwhile (0: nothing is prepared ahead; None: ``worker_threads()`` if
    images have to be decoded, 0 if threads would cost more than they save). ``classes``, if given, bounds the labels.

    Raises:
        DataError: a sample cannot be read, has another shape than ``input_shape``, is of another dtype,
            or holds NaN or infinite values; an image without a ``Preprocess``; a token beyond the vocabulary; a label
            out of range; labels for some samples only; no samples at all.
    """
    if batch_size < 1:
        raise DataError(f"a batch size of {batch_size} is impossible; give at least 1")
    if workers is None:
        workers = worker_threads() if samples.independent else 0
    shape = tuple(input_shape)

    def prepared(read: Callable[[], Sample]) -> Sample:
        return prepare(read(), preparation, shape, classes)

    limit, batch_size = (None if limit is None else min(limit, _MOST)), min(batch_size, _MOST)
    stream = prefetched(prepared, islice(samples.deferred(), limit), workers, batch_size + workers)
    with closing(stream):
        alike = _alike(stream)
        while chunk := list(islice(alike, batch_size)):
            labels = [sample.label for sample in chunk if sample.label is not None]
            yield Batch(
                np.stack([sample.image for sample in chunk]),
                np.array(labels, np.int64) if labels else None,
                tuple(sample.name for sample in chunk),
            )


def prepare(
    sample: Sample, preparation: Preparation, input_shape: tuple[int, ...], classes: int | None = None
) -> Sample:
    """``sample`` as a network reads it, checked; the arguments are those of ``batches``.

    Raises:
        DataError: the sample cannot be used.
    """
    if classes is not None and sample.label is not None and (largest := int(np.max(sample.label))) >= classes:
        step = f" at step {int(np.argmax(sample.label))}" if isinstance(sample.label, np.ndarray) else ""
        raise DataError(
            f"{sample.name} has label {largest}{step}, but the network has {classes} classes (0 to {classes - 1})"
        )
    return replace(sample, image=network_input(preparation, sample.image, input_shape, sample.name))


def varies(batch: Batch) -> bool:
    """Whether a sample (of images a channel) holds more than one value, unlike all-zero data."""
    # The channels of images count one by one, vectors and sequences as a whole.
    kept = 2 if batch.data.ndim == 4 else 1
    values = batch.data.reshape(*batch.data.shape[:kept], -1)
    return bool((values != values[..., :1]).any())


def _alike(stream: Iterable[Sample]) -> Iterator[Sample]:
    """Pass ``stream`` on; check that all samples have labels, or none, and labels of one shape."""
    first: Sample | None = None
    for sample in stream:
        if first is None:
            first = sample
        if (first.label is None) != (sample.label is None):
            raise DataError(
                f"of {sample.name} and the samples before it, some have labels and some do not; label all or none"
            )
        shapes = [np.asarray(each.label).shape for each in (sample, first)]
        if shapes[0] != shapes[1]:
            raise DataError(
                f"{sample.name} has labels of shape {shapes[0]}, the samples before it of shape {shapes[1]}; give one "
                "label for each sample, or for each of its steps"
            )
        yield sample
