"""How many threads prepare the samples of a training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from quantkit.host.threads import worker_threads

# Pixels of an image. Two threads prepare smaller ones more slowly than one does: handing each other Python's lock takes
# longer than the work between.
_SMALL = 128 * 128


def usual_workers(input_shape: Sequence[int]) -> int:
    """How many prepare samples by default: one for each processor that may be used, or a single one for small samples.

    Args:
        input_shape: of a sample, as the network reads it, channels first.
    """
    return worker_threads() if _shared(input_shape) else 1


def enough_workers(workers: int, waiting: float, input_shape: Sequence[int]) -> Optional[int]:
    """How many workers would prepare samples as fast as the network takes them; None if more would not help.

    While the network waits a share w of the time, k workers prepare what it takes in 1 - w of it: k / (1 - w) keep up.
    Without workers, samples are prepared in w of the time: w / (1 - w) workers would do so while the network works.

    Args:
        workers: how many there were; 0: the network itself waited while samples were prepared.
        waiting: the share of the time in which the network waited, from 0 and below 1.
        input_shape: of a sample, as the network reads it, channels first.
    """
    if not _shared(input_shape):
        return None if workers else 1
    # Of 2 / (1 - 0.9), the last digit must not make 21.
    return max(workers, 1, math.ceil((workers or waiting) / (1 - waiting) - 1e-9))


def _shared(input_shape: Sequence[int]) -> bool:
    """Whether several threads prepare such samples faster than one."""
    return math.prod(input_shape[1:]) >= _SMALL
