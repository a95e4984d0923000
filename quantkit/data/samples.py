"""Samples: a set of sample images, read one image at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nsmallest
from itertools import count, islice
from random import Random
from typing import Any, Protocol, TypeVar, Union

import numpy as np

from quantkit.errors import DataError, SampleError
from quantkit.kinds import whole_number

Item = TypeVar("Item")

Label = Union[int, np.ndarray[Any, Any]]
"""The index of a sample's class, or those of all steps of a sequence: int64 of shape (steps,)."""

_LARGEST_LABEL = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Sample:
    """One sample.

    ``image`` is uint8 of shape (height, width, 3), RGB, float32 as the network reads it, already
    preprocessed, or token ids. ``label`` is the index of its class, or those of its steps, if known; ``name`` names it
    in messages.
    """

    image: np.ndarray[Any, Any] = field(repr=False)
    label: Label | None
    name: str


class Address(Protocol):
    """What opens samples that ``load_data`` does not open alike; ``name`` is that of their files."""

    @property
    def name(self) -> str:
        """As ``load_data`` takes it."""

    def open(self) -> Samples:
        """The samples.

        Raises:
            DataError: they cannot be read here.
        """


@dataclass(frozen=True, eq=False)
class Samples:
    """A set of samples; each iteration reads them again, one at a time.

    ``name`` describes their source in messages. ``read`` yields the samples at given ascending
    positions, and stops early if there are no more. ``size`` is their number, None if
    it is unknown until all are read. With ``any_order``, the first N are as good a choice as any
    other (or the only possible one); else neighbours may be alike, as in a set sorted by class.
    ``positions`` are those to read; None: all. With ``independent``, ``read`` may be called for one position at a
    time, by several threads at once, at no extra cost. ``builtin`` samples come with quantkit. ``address`` is what
    opens them on any machine that has the same files, a name for ``load_data`` or an ``Address``; None if they are in
    this process alone. Up to ``skip_bad`` samples that cannot be read or used are left out, if the samples are
    ``independent``.
    """

    name: str
    read: Callable[[Iterable[int]], Iterator[Sample]]
    size: int | None
    any_order: bool = False
    positions: range | tuple[int, ...] | None = None
    independent: bool = False
    builtin: bool = False
    address: str | Address | None = None
    skip_bad: int = 0

    def __len__(self) -> int:
        """The number of samples of an iteration.

        Raises:
            TypeError: it is unknown until all are read.
        """
        if self.positions is not None:
            return len(self.positions)
        if self.size is None:
            raise TypeError(f"the number of samples in {self.name} is unknown until all are read")
        return self.size

    def __iter__(self) -> Iterator[Sample]:
        """The samples in ascending order of position.

        Raises:
            DataError: there are none or fewer than taken, or one cannot be read.
        """
        return self._counted(self.read(self.order()))

    def deferred(self) -> Iterator[Callable[[], Sample]]:
        """The samples in ``order``, as functions that read them; several threads may call these at once.

        If the samples are not ``independent``, each is read before its function is returned.

        Raises:
            DataError: as for iterating; a fault of a single sample may show when its function is called.
        """
        if not self.independent:
            return (partial(_itself, sample) for sample in self)
        return self._counted(partial(_only, self.read, position) for position in self.order())

    def order(self) -> Iterable[int]:
        """The positions of the samples of an iteration; without an end if their number is unknown."""
        if self.positions is not None:
            return self.positions
        return count() if self.size is None else range(self.size)

    def _counted(self, stream: Iterable[Item]) -> Iterator[Item]:
        """Pass on a stream of all samples; check at its end that it was complete."""
        number = 0
        for item in stream:
            number += 1
            yield item
        if number == 0:
            raise _empty(self)
        if self.positions is not None and number < len(self.positions):
            raise _too_few(self, len(self.positions), number)


def _itself(sample: Sample) -> Sample:
    return sample


def _only(read: Callable[[Iterable[int]], Iterator[Sample]], position: int) -> Sample:
    (sample,) = read((position,))
    return sample


def unlabelled(samples: Samples) -> Samples:
    """``samples`` without their labels, of which some may have one and others none."""

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        return (replace(sample, label=None) for sample in samples.read(positions))

    return replace(samples, read=read)


def skipping(samples: Samples, most: int) -> Samples:
    """``samples`` of which up to ``most`` that cannot be read or used are left out.

    Raises:
        UserError: ``most`` is no whole number from 0 up.
    """
    return replace(samples, skip_bad=whole_number("skip_bad", most, 0, 1))


def are_labelled(samples: Samples) -> bool:
    """Whether samples have labels, by the first that can be read.

    Raises:
        DataError: more than ``skip_bad`` samples before it cannot be read, or there are none.
    """
    for left_out, read in enumerate(samples.deferred()):
        try:
            return read().label is not None
        except SampleError:
            if left_out >= samples.skip_bad:
                raise
    return False


def take(samples: Samples, number: int, seed: int = 0) -> Samples:
    """``number`` of ``samples``.

    With ``any_order``, the first ones. Else a random choice, the same everywhere for the same
    ``seed``, in the original order; a smaller choice is always part of a larger one.

    Raises:
        UserError: ``number`` is no whole number from 1 up.
        DataError: there are none, or fewer (raised while iterating if their number is unknown).
    """
    if samples.size == 0:
        raise _empty(samples)
    number = whole_number("num_samples", number, 1)
    if samples.positions is not None:
        if number > len(samples.positions):
            raise _too_few(samples, number, len(samples.positions))
        return replace(samples, positions=samples.positions[:number])
    if samples.size is not None and number > samples.size:
        raise _too_few(samples, number, samples.size)
    if samples.any_order or samples.size is None:
        return replace(samples, positions=range(number))
    random = Random(seed)
    chosen = nsmallest(number, ((random.random(), position) for position in range(samples.size)))
    return replace(samples, positions=tuple(sorted(position for _, position in chosen)))


def _empty(samples: Samples) -> DataError:
    return DataError(f"{samples.name} gave no samples: it is empty, or was read to its end before")


def first(samples: Samples, number: int) -> Samples:
    """The first ``number`` of ``samples``, whose number is unknown; all if there are fewer."""

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        return samples.read(islice(positions, number))

    return replace(samples, read=read)


def repeated(samples: Samples, number: int) -> Samples:
    """The first ``number`` of ``samples`` (all if there are fewer), repeated for ever."""
    if samples.independent and samples.size:
        order = (range(samples.size) if samples.positions is None else samples.positions)[:number]

        def read(positions: Iterable[int]) -> Iterator[Sample]:
            return samples.read(order[position % len(order)] for position in positions)
    else:

        def read(positions: Iterable[int]) -> Iterator[Sample]:
            while True:
                yield from islice(samples, number)

    return replace(samples, read=read, size=None, positions=None)


def picked(stream: Iterable[Sample], positions: Iterable[int]) -> Iterator[Sample]:
    """The samples of ``stream`` at the ascending ``positions``, for sources that are read in sequence."""
    wanted = iter(positions)
    position = next(wanted, None)
    if position is None:
        return
    for index, sample in enumerate(stream):
        if index == position:
            yield sample
            position = next(wanted, None)
            if position is None:
                return


def label_of(value: Any, where: str) -> int:
    """A class index from a number of any type.

    Raises:
        DataError: it is not a whole number from 0 up.
    """
    try:
        label = int(value)
        whole = label == float(value)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or not 0 <= label <= _LARGEST_LABEL:
        raise DataError(f"label {repr(value)[:100]} of {where} is not a class index; give whole numbers from 0 up")
    return label


def step_labels(values: np.ndarray[Any, Any], where: str) -> np.ndarray[Any, Any]:
    """The class indices of a sequence's steps, int64 of shape (steps,), from numbers of any type.

    Raises:
        DataError: one is not a whole number from 0 up.
    """
    if values.dtype.kind in "iu" and values.size and values.min() >= 0 and values.max() <= _LARGEST_LABEL:
        return values.astype(np.int64)
    return np.array([label_of(value, f"step {step} of {where}") for step, value in enumerate(values.tolist())])


def _too_few(samples: Samples, wanted: int, available: int) -> DataError:
    return DataError(
        f"{wanted} samples were requested, but {samples.name} holds {available}; request at most {available}"
    )
