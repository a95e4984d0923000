"""Samples that stay in memory once they were read, as far as they fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import tee
from threading import Lock

from quantkit.data.samples import Sample, Samples

# Bytes of a sample's array, name and places, in addition to its pixels; 370 measured.
_OVERHEAD = 512


def size_kept(sample: Sample) -> int:
    """The bytes that a sample takes in memory."""
    return sample.image.nbytes + _OVERHEAD


class KeptSamples:
    """The samples of a source, by their positions; those beyond the bound are read again each time."""

    def __init__(
        self, source: Samples, most_bytes: int, made: Callable[[Sample], Sample] = lambda sample: sample
    ) -> None:
        """Keep nothing yet.

        Args:
            source: what they are read from.
            most_bytes: how much memory they may take.
            made: what is made of each, and kept.
        """
        self._source, self._made = source, made
        self._left = most_bytes
        self._held: dict[int, Sample] = {}
        self._lock = Lock()

    def read(self, positions: Iterable[int]) -> Iterator[Sample]:
        """See ``Samples.read``; independent samples one at a time, also by several threads at once."""
        if self._source.independent:
            for position in positions:
                sample = self._held.get(position)
                yield sample or self._kept(position, next(self._source.read((position,))))
            return
        held = self._held.copy()
        positions, ahead = tee(positions)
        fresh = self._source.read(position for position in ahead if position not in held)
        for position in positions:
            sample = held.get(position)
            if sample is None:
                read = next(fresh, None)
                if read is None:
                    return
                sample = self._kept(position, read)
            yield sample

    def _kept(self, position: int, read: Sample) -> Sample:
        sample = self._made(read)
        with self._lock:
            size = size_kept(sample)
            if position not in self._held and size <= self._left:
                self._left -= size
                self._held[position] = sample
        return sample
