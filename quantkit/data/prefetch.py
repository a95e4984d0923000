"""Prefetching: background threads compute the next results while the current one is in use."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from threading import Event, local
from typing import TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")

# The engine's OpenMP threads wait for each other in every layer, so prefetching must not displace one of them.
_NICENESS = 10

# Of each thread: whether the iteration that it works for has ended.
_WORKER = local()


def prefetched(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int, depth: int
) -> Generator[Result, None, None]:
    """``function`` of each of the ``items``, in their order, computed ahead in ``workers`` threads.

    At most ``depth`` results are held or being computed. The caller's thread draws the ``items``, a few
    ahead; the first ones are begun at once. An exception of ``function`` or ``items`` is raised in place of its result,
    after all results before it. When the iteration ends, early or not, each thread ends after its current result; close
    an iterator that is not exhausted (``contextlib.closing``). With 0 workers nothing is computed ahead.
    """
    if workers == 0:
        return (function(item) for item in items)
    results = _results(function, items, workers, depth)
    # Begins the first ones. What comes from now on are results.
    next(results)
    return cast("Generator[Result, None, None]", results)


def _results(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int, depth: int
) -> Generator[Result | None, None, None]:
    """The results after a None, which says that the first of them are being computed."""
    ended = Event()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="prefetch", initializer=_begin, initargs=(ended,))
    try:
        futures = _submitted(pool, function, items)
        pending = deque(islice(futures, max(1, depth)))
        yield None
        while pending:
            yield pending.popleft().result()
            pending.extend(islice(futures, 1))
    finally:
        ended.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _submitted(
    pool: ThreadPoolExecutor, function: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Future[Result]]:
    """The futures of the results; if ``items`` fail, the last future has the error."""
    try:
        for item in items:
            yield pool.submit(function, item)
    except Exception as error:
        failed: Future[Result] = Future()
        failed.set_exception(error)
        yield failed


def unwanted() -> bool:
    """Whether this thread computes for an iteration that has ended: nobody wants the result, so it need not wait."""
    ended: Event | None = getattr(_WORKER, "ended", None)
    return ended is not None and ended.is_set()


def _begin(ended: Event) -> None:
    """Lower this thread's priority; on Linux the niceness is per thread."""
    os.nice(_NICENESS)
    _WORKER.ended = ended
