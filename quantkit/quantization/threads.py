"""Independent pieces of work, shared out among threads: images of a batch, halves of the rows, channels of a layer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from quantkit.host.threads import MOST_WORKERS, worker_threads

Result = TypeVar("Result")


def in_threads(function: Callable[[int], Result], count: int, most: int = MOST_WORKERS) -> list[Result]:
    """The results of a function of the numbers below ``count``, in their order.

    The function runs in several threads at once, and may release the interpreter's lock, as NumPy does. Images one
    after the other in each of them keep what one needs in the core's cache. ``most`` bounds how many run at once,
    and so the memory that they take together.
    """
    threads = worker_threads(min(count, most))
    if threads < 2:
        return [function(number) for number in range(count)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, range(count)))
