"""The server scenario: the highest rate of requests at random times whose p99 latency stays within a bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from quantkit.benchmark.dispatch import Dispatcher, Request, Serve
from quantkit.benchmark.loadgen import Observed, check_loadgen, run_trial
from quantkit.benchmark.results import Server, ServerTrial

_CLOSED_LOOP_SECONDS = 2.0

# The search gives up below this share of the closed-loop throughput, and ends when it knows the rate to this factor.
_LOWEST = 1 / 128
_PRECISION = 1.05

# A rate that the search has found must also hold for so many times as long; else less is tried, in growing steps.
_CONFIRMATION = 3.0
_STEP_BACK = 0.9

# LoadGen counts from when a query was due: this much more than our own clock says means that it was late itself.
_LATE, _LATE_MS = 1.1, 0.5


@dataclass(frozen=True)
class ClosedLoop:
    """Requests without pause: how many per second all instances serve, and the shortest that one took, in ms."""

    rate: float
    shortest: float


def search_rate(
    serve: Sequence[Serve],
    bound: float,
    seconds: float,
    seed: int,
    folder: Path,
    tell: Callable[[str], None] = lambda _: None,
) -> Server:
    """Find the highest rate of Poisson arrivals whose p99 latency, as LoadGen records it, stays within ``bound``.

    The instances first work without pause; that throughput bounds the search, since at no higher rate can a
    queue stay short. Half of it is tried, and halved again while it does not hold; then the search goes on
    between the highest rate that holds and the lowest that does not. What it finds has to hold in a run three
    times as long with other arrival times; else a tenth less is tried so, then again less in growing steps.

    Args:
        serve: a function for each instance that serves one request and returns when it is done. Requests go
            to the first idle instance in the order of their arrival.
        bound: in ms.
        seconds: how long queries are sent in each run.
        seed: of the arrival times.
        folder: where LoadGen's logs go, a folder for each run.
        tell: is told of every run.

    Returns:
        The rate, 0.0 where none holds, and all runs in order; the one that confirmed the rate is the last.

    Raises:
        UserError: LoadGen is not installed.
        QuantkitError: LoadGen or an instance failed.
    """
    check_loadgen()
    closed = closed_loop(serve, _CLOSED_LOOP_SECONDS)
    tell(f"without pause: {closed.rate:.4g} requests/s, the shortest {closed.shortest:.3g} ms")
    trials: list[ServerTrial] = []

    def holds(rate: float, duration: float = seconds, arrivals: int = seed) -> bool:
        where = folder / f"trial-{len(trials) + 1:02}"
        observed = run_trial(serve, rate, bound, duration, arrivals, where)
        trials.append(observed.trial)
        for line in described(observed):
            tell(line)
        return observed.trial.p99 <= bound

    high, rate = closed.rate, closed.rate / 2
    while not holds(rate):
        high, rate = rate, rate / 2
        if rate < closed.rate * _LOWEST or closed.shortest > bound:
            return Server(bound, 0.0, tuple(trials))
    while high / rate > _PRECISION:
        middle = sqrt(rate * high)
        if holds(middle):
            rate = middle
        else:
            high = middle
    step = _STEP_BACK
    while not holds(rate, seconds * _CONFIRMATION, seed + 1):
        rate, step = rate * step, step * step
        if rate < closed.rate * _LOWEST:
            return Server(bound, 0.0, tuple(trials))
    return Server(bound, rate, tuple(trials))


def described(observed: Observed) -> list[str]:
    """A run in words, and a warning where LoadGen and our own clock disagree."""
    trial = observed.trial
    verdict = "VALID" if trial.valid else "INVALID"
    lines = [f"{trial.rate:.4g} requests/s: p99 {trial.p99:.3g} ms over {trial.completed} requests, LoadGen: {verdict}"]
    own = float(np.percentile(observed.latencies, 99))
    if trial.p99 > _LATE * own + _LATE_MS:
        lines.append(
            f"LoadGen records a p99 of {trial.p99:.3g} ms where the instances and their queue took {own:.3g} ms: "
            "it was late itself; leave it a core"
        )
    return lines


def closed_loop(serve: Sequence[Serve], seconds: float) -> ClosedLoop:
    """Have every instance serve one request after the other; each serves at least one.

    Raises:
        QuantkitError: an instance failed (what it raised).
    """
    latencies: list[float] = []
    finished: SimpleQueue[None] = SimpleQueue()
    begun = time.monotonic()

    def done(request: Request) -> None:
        now = time.monotonic()
        latencies.append(now * 1e3 - request.arrived / 1e6)
        if now - begun < seconds:
            dispatcher.submit(0)
        else:
            finished.put(None)

    def failed() -> None:
        for _ in serve:
            finished.put(None)

    with Dispatcher(serve, done, failed) as dispatcher:
        for _ in serve:
            dispatcher.submit(0)
        for _ in serve:
            finished.get()
        elapsed = time.monotonic() - begun
    if dispatcher.error is not None:
        raise dispatcher.error
    return ClosedLoop(len(latencies) / elapsed, min(latencies))
