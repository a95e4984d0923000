"""The feed: shuffled, augmented batches of training samples, prepared while the network works."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from quantkit.data.batches import prepare
from quantkit.data.kept_samples import KeptSamples
from quantkit.data.left_out import LeftOut
from quantkit.data.prefetch import prefetched, unwanted
from quantkit.data.samples import Sample, Samples, label_of
from quantkit.errors import DataError, SampleError
from quantkit.files.files import as_text
from quantkit.host.memory import available_memory
from quantkit.models.model import Model
from quantkit.training.augmentation import augmented, can_be_varied
from quantkit.training.config import TrainingConfig
from quantkit.training.targets import mixed, smoothed
from quantkit.units import counted

# What is drawn at random for all samples, each from a stream of its own.
_ORDER, _MIXING = range(2)

# Batches beside those that the workers prepare: the one that the network learns from.
_LEARNED = 1

# What samples that can only be read one after another may take of the memory that is free, and what others may.
_SHARE_HELD, _SHARE_KEPT = 0.5, 0.25


class TrainingBatch(NamedTuple):
    """Samples of one step.

    Attributes:
        data: float32 of shape (samples, ...), as the network reads them.
        targets: float32 of shape (samples, classes), each row of sum 1; zeros without labels.
    """

    data: np.ndarray[Any, Any]
    targets: np.ndarray[Any, Any]


class _Place(NamedTuple):
    """A step of an epoch, and the positions of its samples."""

    epoch: int
    step: int
    positions: list[int]


@dataclass(frozen=True, eq=False)
class Feed:
    """Training samples in batches.

    In each epoch all samples are shuffled anew and cut into batches, of which each instance takes its part: the same
    samples make a step, with the same augmentation, for any number of instances and workers. Samples that do not fill
    a last batch are left out of that epoch; they are others in each.

    Attributes:
        samples: the samples; to make batches of, they have to be ``readable_in_any_order``.
        model: the network that reads them.
        config: how it is trained.
        classes: the number of its classes.
        workers: threads that prepare a batch each; 0: the caller's own.
        rank: of the instance.
        instances: their number.
        left_out: is given samples that cannot be used, by their place in their source; up to ``samples.skip_bad`` of
            them are replaced by the ones after them.
        labelled: whether the samples need labels; without, all targets are 0.
    """

    samples: Samples
    model: Model
    config: TrainingConfig
    classes: int
    workers: int
    rank: int = 0
    instances: int = 1
    left_out: dict[int, LeftOut] = field(default_factory=dict)
    labelled: bool = True
    _lock: Lock = field(default_factory=Lock)

    @property
    def steps(self) -> int:
        """The number of batches in an epoch."""
        return len(self.samples) // self.config.batch_size

    def epochs(self, first: int, last: int) -> Generator[TrainingBatch, None, None]:
        """The batches of the epochs from the first to the last, ``steps`` of each.

        The first are begun at once, and those of an epoch while the network is judged after the one before. What is
        not exhausted has to be closed (``contextlib.closing``).

        Raises:
            DataError: more samples cannot be used than may be left out, or one has no label or one beyond the classes.
        """
        places = (place for number in range(first, last + 1) for place in self._places(number))
        return prefetched(self._batch, places, self.workers, _LEARNED + self.workers)

    def _places(self, number: int) -> Iterator[_Place]:
        """Where this instance's batches of an epoch are, in their order."""
        order = np.random.default_rng((self.config.seed, _ORDER, number)).permutation(len(self.samples))
        steps = order[: self.steps * self.config.batch_size].reshape(self.steps, self.instances, -1)
        return (_Place(number, step, positions.tolist()) for step, positions in enumerate(steps[:, self.rank]))

    def digest(self, number: int) -> bytes:
        """The SHA-256 of so many samples, and of how they are read."""
        reading = f"{len(self.samples)} {self.classes} {self.config.sha256}"
        return hashlib.sha256(reading.encode() + digest_of(self.samples, number, spread=True)).digest()

    def _batch(self, place: _Place) -> TrainingBatch:
        samples = []
        for position in place.positions:
            if unwanted():
                raise CancelledError
            samples.append(self._prepared(place.epoch, position))
        data = np.stack([sample.image for sample in samples])
        targets = np.zeros((len(samples), self.classes), np.float32)
        if self.labelled:
            labels = np.array([sample.label for sample in samples])
            targets = smoothed(labels, self.classes, self.config.label_smoothing)
        if self.config.mixup:
            pairs = self.config.batch_size // 2
            shares = np.random.default_rng((self.config.seed, _MIXING, place.epoch, place.step)).beta(
                *2 * (self.config.mixup,), pairs
            )
            own = len(samples) // 2
            data, targets = mixed(data, targets, shares[self.rank * own : (self.rank + 1) * own])
        return TrainingBatch(data, targets)

    def _prepared(self, epoch: int, position: int) -> Sample:
        """The sample at a position, or the next one that can be used."""
        for _ in range(self.samples.skip_bad + 1):
            try:
                return self._varied(epoch, position)
            except SampleError as error:
                self._leave_out(place_of(self.samples, position), error)
                position = (position + 1) % len(self.samples)
        raise DataError(f"too many samples of {self.samples.name} cannot be used; replace them")

    def _varied(self, epoch: int, position: int) -> Sample:
        (sample,) = self.samples.read((place_of(self.samples, position),))
        if not self.labelled:
            sample = replace(sample, label=None)
        elif sample.label is None or isinstance(sample.label, np.ndarray):
            kind = "no label" if sample.label is None else "a label for each of its steps"
            raise DataError(
                f"{sample.name} has {kind}; give a class for each sample: a folder per class, a labels.csv, or `y` in "
                "the .npz"
            )
        else:
            sample = replace(sample, label=label_of(sample.label, sample.name))
        return self.varied(sample, epoch, position)

    def varied(self, sample: Sample, epoch: int, position: int) -> Sample:
        """A sample as the network reads it in an epoch, from its position among all.

        Raises:
            SampleError: it cannot be used.
        """
        augmentation, preprocess = self.config.augmentation, self.model.preprocess
        if preprocess is None or not augmentation.changes or not can_be_varied(sample):
            return prepare(sample, self.model.preparation, self.model.input_shape, self.classes)
        if not isinstance(sample.label, int) or sample.label < self.classes:
            random = Random(f"{self.config.seed} {epoch} {position}")
            image = augmented(augmentation, preprocess, sample, self.model.input_shape, random)
            sample = replace(sample, image=image)
        return prepare(sample, None, self.model.input_shape, self.classes)

    def _leave_out(self, place: int, error: SampleError) -> None:
        with self._lock:
            number = len(self.left_out)
            if place in self.left_out:
                return
            if number < self.samples.skip_bad:
                self.left_out[place] = LeftOut(place, as_text(error.sample), as_text(str(error)))
                return
        were = "was" if number == 1 else "were"
        before = f"; {counted(number, 'sample')} before it {were} left out" if number else ""
        raise DataError(f"{error}{before}, and no more may be (--skip-bad, skip_bad)") from error


def check_batch(samples: Samples, batch_size: int) -> None:
    """Make sure that samples are enough for a batch.

    Raises:
        DataError: they are not.
    """
    if len(samples) < batch_size:
        raise DataError(
            f"{samples.name} has {len(samples)} samples, fewer than a batch of {batch_size}; give more, or a smaller "
            "batch (--batch-size, batch_size)"
        )


def place_of(samples: Samples, position: int) -> int:
    """Where a sample lies in its source."""
    return position if samples.positions is None else samples.positions[position]


def digest_of(samples: Samples, number: int, spread: bool) -> bytes:
    """The SHA-256 of so many samples, with their labels; of those that cannot be read, of that.

    Args:
        samples: the samples.
        number: how many.
        spread: take them evenly from all, of which the number is known; else the first ones.
    """
    digest = hashlib.sha256()
    places = [*islice(samples.order(), number)]
    if spread:
        positions = np.linspace(0, len(samples) - 1, min(number, len(samples))).astype(int)
        places = [place_of(samples, position) for position in positions.tolist()]
    for part in [[place] for place in places] if samples.independent else [places]:
        try:
            for sample in samples.read(part):
                digest.update(np.ascontiguousarray(sample.image).data)
                digest.update(str(sample.label).encode())
        except SampleError:
            digest.update(b"unreadable")
    return digest.digest()


def readable_in_any_order(samples: Samples, processes: int = 1) -> Samples:
    """Samples that can be read in any order, held in memory: if they are ``independent``, as far as they fit.

    Independent ones are held once they were read, so that their files are decoded, or fetched, in the first epoch
    alone, up to a quarter of the memory that is free (none where that is unknown). Others are all read at once.

    Args:
        samples: the samples.
        processes: how many of this machine hold them at once.

    Raises:
        DataError: of those that are read at once, there are none, one cannot be read, or they take more than half of
            the memory that is free.
    """
    if samples.independent and samples.size:
        return replace(samples, read=KeptSamples(samples, bytes_kept(processes)).read)
    free = available_memory()
    most = None if free is None else int(free * _SHARE_HELD / processes)
    held: dict[int, Sample] = {}
    taken = 0
    for sample, position in zip(samples, samples.order()):
        taken += sample.image.nbytes
        if most is not None and taken > most:
            raise DataError(
                f"the samples of {samples.name} are read one after another, so they are held in memory to be shuffled, "
                f"and take more than the {most >> 20} MiB that they may; pack them (quantkit pack), or give a folder"
            )
        held[position] = replace(sample, image=np.array(sample.image))

    def read(positions: Any) -> Generator[Sample, None, None]:
        yield from (held[position] for position in positions)

    return replace(samples, read=read, size=samples.size or len(held), independent=True)


def bytes_kept(processes: int) -> int:
    """How much samples that can be read again may take in each of so many processes of this machine that keep them."""
    return int((available_memory() or 0) * _SHARE_KEPT / processes)
