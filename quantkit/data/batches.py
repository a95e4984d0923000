"""Batches: samples as a network reads them, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from quantkit.data.prefetch import default_workers, prefetched
from quantkit.data.preprocess import Preprocess, network_input
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError

# More than any set holds; ``islice`` counts no further than 63 bits.
_MOST = 2**31


@dataclass(frozen=True, eq=False)
class Batch:
    """Some samples as a network reads them.

    ``data`` is float32 of shape (samples, ...), ``labels`` int64 of shape (samples,) or None where they
    are not known, ``names`` what messages call the samples.
    """

    data: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any] | None
    names: tuple[str, ...]


def batches(
    samples: Samples,
    preprocess: Preprocess | None,
    input_shape: Sequence[int],
    batch_size: int,
    limit: int | None = None,
    classes: int | None = None,
    workers: int | None = None,
) -> Generator[Batch, None, None]:
    """``samples``, or the first ``limit`` of them, preprocessed and in batches; the last may be smaller.

    ``input_shape`` is that of one sample, without the batch axis. Images are preprocessed; float32
    samples are taken as they are. Only one batch is held at a time, and as many samples as the next one needs,
    which ``workers`` background threads prepare meanwhile (0: nothing is prepared ahead; None: ``default_workers()``
    where images have to be decoded, 0 where threads would cost more than they save). ``classes``, where given,
    bounds the labels.

    Raises:
        DataError: a sample cannot be read, has another shape than ``input_shape``, is of another dtype,
            or holds NaN or infinite values; an image without a ``preprocess``; a label out of range;
            labels for some samples only; no samples at all.
    """
    if batch_size < 1:
        raise DataError(f"batches of {batch_size} samples were asked for; ask for at least 1")
    if workers is None:
        workers = default_workers() if samples.independent else 0
    shape = tuple(input_shape)

    def prepared(read: Callable[[], Sample]) -> Sample:
        return prepare(read(), preprocess, shape, classes)

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
    sample: Sample, preprocess: Preprocess | None, input_shape: tuple[int, ...], classes: int | None = None
) -> Sample:
    """``sample`` as a network reads it, checked; the arguments are those of ``batches``.

    Raises:
        DataError: it cannot be used.
    """
    if classes is not None and sample.label is not None and sample.label >= classes:
        raise DataError(
            f"{sample.name} has label {sample.label}, but the network has {classes} classes (0 to {classes - 1})"
        )
    return replace(sample, image=network_input(preprocess, sample.image, input_shape, sample.name))


def check_not_constant(stream: Iterable[Batch], name: str) -> Iterator[Batch]:
    """Pass ``stream`` on; at its end, make sure that it was worth calibrating with. ``name`` is that of the samples.

    Raises:
        DataError: each channel of each sample held one value throughout, as in all-zero data.
    """
    varied = False
    for batch in stream:
        if not varied:
            channels = batch.data.reshape(*batch.data.shape[:2], -1) if batch.data.ndim > 2 else batch.data
            varied = bool((channels != channels[..., :1]).any())
        yield batch
    if not varied:
        raise DataError(
            f"every sample of {name} is constant (for example all zero); give real samples to calibrate with"
        )


def _alike(stream: Iterable[Sample]) -> Iterator[Sample]:
    """Pass ``stream`` on; make sure that all samples have a label or none."""
    labelled = None
    for sample in stream:
        if labelled is None:
            labelled = sample.label is not None
        if labelled != (sample.label is not None):
            raise DataError(
                f"{sample.name} and the samples before it are not alike in having a label; label all or none"
            )
        yield sample
