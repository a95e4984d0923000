"""Batches: samples as a network reads them, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from quantkit.data.left_out import LeftOut, Tally
from quantkit.data.prefetch import prefetched
from quantkit.data.preparation import Preparation, network_input
from quantkit.data.samples import Sample, Samples
from quantkit.errors import DataError, SampleError
from quantkit.files.files import as_text
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
    left_out: dict[int, LeftOut] | None = None,
) -> Generator[Batch, None, None]:
    """``samples``, or the first ``limit`` of them, preprocessed and in batches; the last may be smaller.

    ``input_shape`` is that of one sample, without the batch axis. Images are preprocessed, token ids
    checked; float32 samples are used as they are. Memory holds one batch, and the samples of the next one,
    which ``workers`` background threads prepare meanwhile (0: nothing is prepared ahead; None: ``worker_threads()`` if
    images have to be decoded, 0 if threads would cost more than they save). ``classes``, if given, bounds the labels.

    With ``left_out``, up to ``samples.skip_bad`` samples that cannot be read or used are noted there by their
    positions, and left out: their batches are smaller, and a batch of such samples alone is left out, too. There may be
    none.

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
    most = 0 if left_out is None else samples.skip_bad
    tally = Tally(most, {} if left_out is None else left_out)

    def prepared(place: tuple[Callable[[], Sample], int]) -> Sample | LeftOut:
        read, position = place
        try:
            return prepare(read(), preparation, shape, classes)
        except SampleError as error:
            if not (most and samples.independent):
                raise
            return LeftOut(position, as_text(error.sample), as_text(str(error)))

    limit, batch_size = (None if limit is None else min(limit, _MOST)), min(batch_size, _MOST)
    places = islice(zip(samples.deferred(), samples.order()), limit)
    stream = prefetched(prepared, places, workers, batch_size + workers)
    with closing(stream):
        alike = _alike(_unbroken(stream, samples.name) if most else stream)
        while chunk := list(islice(alike, batch_size)):
            kept = []
            for each in chunk:
                if isinstance(each, Sample):
                    kept.append(each)
                else:
                    tally.add(each)
            if kept:
                labels = [sample.label for sample in kept if sample.label is not None]
                yield Batch(
                    np.stack([sample.image for sample in kept]),
                    np.array(labels, np.int64) if labels else None,
                    tuple(sample.name for sample in kept),
                )


def prepare(
    sample: Sample, preparation: Preparation, input_shape: tuple[int, ...], classes: int | None = None
) -> Sample:
    """``sample`` as a network reads it, checked; the arguments are those of ``batches``.

    Raises:
        SampleError: the sample cannot be used.
        DataError: no sample of its kind can.
    """
    if classes is not None and sample.label is not None and (largest := int(np.max(sample.label))) >= classes:
        step = f" at step {int(np.argmax(sample.label))}" if isinstance(sample.label, np.ndarray) else ""
        raise DataError(
            f"{sample.name} has label {largest}{step}, but the network has {classes} classes (0 to {classes - 1}); "
            "correct the labels, or take a network with as many classes"
        )
    try:
        return replace(sample, image=network_input(preparation, sample.image, input_shape, sample.name))
    except SampleError as error:
        raise SampleError(str(error), sample.name) from error


def varies(batch: Batch) -> bool:
    """Whether a sample (of images a channel) holds more than one value, unlike all-zero data."""
    # The channels of images count one by one, vectors and sequences as a whole.
    kept = 2 if batch.data.ndim == 4 else 1
    values = batch.data.reshape(*batch.data.shape[:kept], -1)
    return bool((values != values[..., :1]).any())


def _unbroken(stream: Iterable[Sample | LeftOut], name: str) -> Iterator[Sample | LeftOut]:
    """Pass ``stream`` on; say of a sample that cannot be left out why."""
    try:
        yield from stream
    except SampleError as error:
        raise DataError(
            f"{error}; it cannot be left out (--skip-bad, skip_bad), since the samples of {name} are read one after "
            "another: give images in a folder, a .rec file or shards"
        ) from error


def _alike(stream: Iterable[Sample | LeftOut]) -> Iterator[Sample | LeftOut]:
    """Pass ``stream`` on; check that all samples have labels, or none, and labels of one shape."""
    first: Sample | None = None
    for sample in stream:
        if isinstance(sample, LeftOut):
            yield sample
            continue
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
