"""Independent pieces of work, shared out among threads: images of a batch, halves of the rows, channels of a layer."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

# More would mostly wait for each other: every call needs Python's interpreter lock for a part of its time.
_MOST_THREADS = 16


def thread_count() -> int:
    """How many threads work at once, at most."""
    return min(len(os.sched_getaffinity(0)), _MOST_THREADS)


def in_threads(function: Callable[[int], Result], count: int, most: int = _MOST_THREADS) -> list[Result]:
    """The results of a function of the numbers below ``count``, in their order.

    The function runs in several threads at once, and may release the interpreter's lock, as NumPy does. Images one
    after the other in each of them keep what one needs in the core's cache. ``most`` bounds how many run at once,
    and so the memory that they take together.
    """
    threads = min(count, thread_count(), most)
    if threads < 2:
        return [function(number) for number in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, range(count)))
