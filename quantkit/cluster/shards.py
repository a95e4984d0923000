"""How samples are cut into shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Optional

import numpy as np

Span = tuple[int, int]
"""The places of a shard's first sample, and of the first after it, in the order of the samples."""

# Progress and what is lost with a worker stay within a minute of an engine's time.
_MOST_SAMPLES = 256

_MOST_BYTES = 2**26

# The first shards are a worker's whole share divided by this, and the last ones by the other.
_FIRST, _LAST = 2, 32

# No shard is smaller than the whole divided by this: a scheduler bears some hundred shards a second.
_FINEST = 2048


def most_samples(batch_size: int, wanted: Optional[int] = None, sent: Sequence[int] = ()) -> int:
    """How many samples a shard has at most: whole batches, since engines may compute other values in other batches.

    Args:
        batch_size: how many an engine reads at once.
        wanted: how many the user asks for.
        sent: the shape of a sample, where samples are sent with the shard: 64 MiB of them at most, but a batch.
    """
    size = -(-(_MOST_SAMPLES if wanted is None else wanted) // batch_size)
    if sent:
        size = min(size, _MOST_BYTES // (batch_size * prod(sent) * np.dtype(np.float32).itemsize))
    return max(size, 1) * batch_size


def spans(samples: int, batch_size: int, most: int, workers: Optional[int], known: Iterable[Span] = ()) -> list[Span]:
    """The shards of samples, in their order: those that are known, and between them whole batches.

    They become smaller towards the end, so that workers finish at the same time although some are slower, and are few:
    guided self-scheduling (Polychronopoulos and Kuck, IEEE Transactions on Computers C-36, 1987), with half of its
    shares.

    Args:
        samples: how many there are.
        batch_size: how many an engine reads at once.
        most: how many a shard has at most, whole batches.
        workers: how many shards are computed at once; None: all have as many as they may.
        known: shards of an earlier run; of those that overlap, the first counts.
    """
    held = list(_apart(known))
    remaining = samples - sum(stop - start for start, stop in held)
    least = 0 if workers is None else remaining // min(_LAST * workers, _FINEST)
    found, place = [], 0
    for start, stop in [*held, (samples, samples)]:
        while place < start:
            wanted = most if workers is None else min(max(remaining // (_FIRST * workers), least), most)
            end = min(place + max(wanted // batch_size, 1) * batch_size, start)
            found.append((place, end))
            remaining -= end - place
            place = end
        if start < stop:
            found.append((start, stop))
            place = stop
    return found


def _apart(known: Iterable[Span]) -> Iterator[Span]:
    place = 0
    for start, stop in sorted(known):
        if start >= place:
            yield start, stop
            place = stop
