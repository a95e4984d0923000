"""How many threads prepare the samples of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Optional

from quantkit.data.samples import Samples
from quantkit.host.threads import decoders_asked, worker_threads

SMALL = 128 * 128
"""Pixels of an image. Two threads vary smaller ones more slowly than one does: handing each other Python's lock takes
longer than the work between."""


class FeedWorkers(NamedTuple):
    """Threads that prepare samples.

    Attributes:
        number: how many; 0: the network waits while samples are prepared.
        scale: whether more of them prepare samples faster.
    """

    number: int
    scale: bool


def feed_workers(asked: Optional[int], samples: Samples, input_shape: Sequence[int]) -> FeedWorkers:
    """The threads that prepare samples: as many as are asked for, or one for each processor that may be used.

    A single one is the default for small images that lie in arrays, so that nothing has to be decoded.

    Args:
        asked: their number; None: the default.
        samples: as they are loaded, before they are held in memory.
        input_shape: of a sample, as the network reads it, channels first.

    Raises:
        UserError: the number is impossible.
    """
    scale = samples.independent or math.prod(input_shape[1:]) >= SMALL
    if asked is not None:
        return FeedWorkers(decoders_asked(asked, 0), scale)
    return FeedWorkers(worker_threads() if scale else 1, scale)


def enough_workers(workers: FeedWorkers, waiting: float) -> Optional[int]:
    """How many workers would prepare samples as fast as the network takes them; None if more would not help.

    While the network waits a share w of the time, k workers prepare what it takes in 1 - w of it: k / (1 - w) keep up.
    Without workers, samples are prepared in w of the time: w / (1 - w) workers would do so while the network works.

    Args:
        workers: those that there were.
        waiting: the share of the time in which samples were waited for, from 0 and below 1.
    """
    if not workers.scale:
        return None if workers.number else 1
    # Of 2 / (1 - 0.9), the last digit must not make 21.
    return max(workers.number, 1, math.ceil((workers.number or waiting) / (1 - waiting) - 1e-9))
