"""Requests at random times, as those of users who do not wait for each other."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from threading import Condition

from quantkit.benchmark.measuring.dispatch import Dispatcher, Request, Serve
from quantkit.benchmark.measuring.server import ClosedLoop

# What is not answered after this many times the seconds of a measurement is not waited for.
_PATIENCE = 2.0


def at_random(serve: Sequence[Serve], rate: float, seconds: float) -> ClosedLoop:
    """Serve requests that arrive in a Poisson process; the same arrivals each time.

    Args:
        serve: functions that serve a request each; idle ones take the first that waits.
        rate: requests per second.
        seconds: how long they arrive.

    Returns:
        The requests per second that were answered, and for each its time from when it was due, in ms; of those that
        are not answered in time, how long they have waited.

    Raises:
        QuantkitError: a request fails (its own exception).
    """
    due = _arrivals(rate, seconds)
    ended: dict[int, float] = {}
    changed = Condition()

    def done(request: Request) -> None:
        with changed:
            ended[request.number] = time.monotonic()
            changed.notify()

    def failed() -> None:
        with changed:
            changed.notify()

    begun = time.monotonic()
    with Dispatcher(serve, done, failed) as dispatcher:
        for number, moment in enumerate(due):
            time.sleep(max(0.0, begun + moment - time.monotonic()))
            dispatcher.submit(number)
        with changed:
            left = begun + _PATIENCE * seconds - time.monotonic()
            changed.wait_for(lambda: len(ended) == len(due) or dispatcher.error is not None, max(0.0, left))
        dispatcher.stop()
    if dispatcher.error is not None:
        raise dispatcher.error
    now = time.monotonic()
    dispatcher.join(_PATIENCE * seconds)
    with changed:
        latencies = tuple(1e3 * (ended.get(number, now) - begun - moment) for number, moment in enumerate(due))
        return ClosedLoop(len(ended) / (max(ended.values(), default=now) - begun), latencies)


def _arrivals(rate: float, seconds: float) -> list[float]:
    """When requests are due, in seconds; the first at once."""
    shuffled = random.Random(0)
    due = [0.0]
    while (moment := due[-1] + shuffled.expovariate(rate)) < seconds:
        due.append(moment)
    return due
