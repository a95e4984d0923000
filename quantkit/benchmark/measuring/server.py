"""The server scenario: the highest rate of requests at random times whose p99 latency stays within a bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import sqrt
from pathlib import Path
from queue import SimpleQueue
from typing import Optional

from quantkit.benchmark.measuring.dispatch import Dispatcher, Request, Serve
from quantkit.benchmark.measuring.loadgen import Observed, asked_for, check_loadgen, run_trial
from quantkit.benchmark.results.cell_warnings import BUSY, STOLEN, UNTOLD
from quantkit.benchmark.results.results import Server
from quantkit.host.load import Load
from quantkit.progress import Tell, untold

Watch = Callable[[], Callable[[], Optional[Load]]]
"""Begins to watch the instances' processors; the function that it returns gives the load of other processes there
since then, with stolen time separately; None if the system does not show it."""

_CLOSED_LOOP_SECONDS = 2.0

# The search gives up below this share of the closed-loop throughput, and ends when it knows the rate to this factor.
_LOWEST = 1 / 128
SEARCH_PRECISION = 1.05

# The resulting rate must also hold in a run this many times as long; else lower rates are tried, in growing steps.
_CONFIRMATION = 3.0
_STEP_BACK = 0.9

# LoadGen counts from when a query was due: if it records this much more than our clock, it was late itself.
_LATE, _LATE_MS = 1.1, 0.5


@dataclass(frozen=True)
class ClosedLoop:
    """Requests without pause: the requests per second of all instances, and the latency of each, in ms."""

    rate: float
    latencies: tuple[float, ...]

    @property
    def shortest(self) -> float:
        """The shortest latency, in ms."""
        return min(self.latencies)


@dataclass(frozen=True)
class Served:
    """The result of a search, with warnings that make it less certain."""

    server: Server
    warnings: tuple[str, ...]


def search_rate(
    serve: Sequence[Serve],
    watch: Watch,
    bound: float,
    seconds: float,
    seed: int,
    folder: Path,
    tell: Tell = untold,
) -> Served:
    """Find the highest rate of Poisson arrivals whose p99 latency, as LoadGen records it, stays within ``bound``.

    The instances first work without pause; that throughput bounds the search, since at no higher rate can a
    queue stay short. Half of it is tried, and halved again while it does not hold; then the search goes on
    between the highest rate that holds and the lowest that does not. What it finds has to hold in a run three
    times as long with other arrival times; else a tenth less is tried so, then again less in growing steps.

    Args:
        serve: a function for each instance that serves one request and returns when it is done. Requests go
            to the first idle instance in the order of their arrival.
        watch: called at the beginning of every run; the function that it returns is called at the end.
        bound: in ms.
        seconds: how long queries are sent in each run.
        seed: of the arrival times.
        folder: for LoadGen's logs, a folder for each run.
        tell: called with a description of every run.

    Returns:
        The rate, 0.0 if none holds, and all runs in order; the last one confirmed the rate. The
        warnings say if LoadGen was late itself, and if others used the processors.

    Raises:
        UserError: LoadGen is not installed.
        QuantkitError: LoadGen or an instance failed.
    """
    check_loadgen()
    others = watch()
    closed = closed_loop(serve, _CLOSED_LOOP_SECONDS)
    loads = [others()]
    tell(f"without pause: {closed.rate:.4g} requests/s, the shortest {closed.shortest:.3g} ms")
    runs: list[Observed] = []

    def holds(duration: float, arrivals: int, rate: float) -> bool:
        others = watch()
        run = run_trial(serve, rate, bound, duration, arrivals, folder / f"trial-{len(runs) + 1:02}")
        loads.append(others())
        runs.append(run)
        tell(described(run, bound))
        return run.trial.p99 <= bound

    rate = _highest(closed, bound, partial(holds, seconds, seed), partial(holds, seconds * _CONFIRMATION, seed + 1))
    return Served(Server(bound, rate, tuple(run.trial for run in runs)), (*lateness(runs), *disturbances(loads)))


def _highest(
    closed: ClosedLoop, bound: float, holds: Callable[[float], bool], holds_long: Callable[[float], bool]
) -> float:
    """The highest rate that holds, in a long run, too; 0.0 if none does."""
    high, rate = closed.rate, closed.rate / 2
    while not holds(rate):
        high, rate = rate, rate / 2
        if rate < closed.rate * _LOWEST or closed.shortest > bound:
            return 0.0
    while high / rate > SEARCH_PRECISION:
        middle = sqrt(rate * high)
        if holds(middle):
            rate = middle
        else:
            high = middle
    step = _STEP_BACK
    while not holds_long(rate):
        rate, step = rate * step, step * step
        if rate < closed.rate * _LOWEST:
            return 0.0
    return rate


def described(run: Observed, bound: float) -> str:
    """A run in words: whether it keeps the bound (ms), which decides the search, and LoadGen's verdict."""
    trial = run.trial
    kept = "within" if trial.p99 <= bound else "above"
    text = (
        f"{trial.rate:.4g} requests/s: p99 {trial.p99:.3g} ms of {trial.completed} requests, {kept} {bound:g} ms; "
        f"LoadGen: {'VALID' if trial.valid else 'INVALID'}"
    )
    more = asked_for(trial.why)
    # Above the bound no number of requests would do.
    if more is not None and trial.p99 <= bound:
        return f"{text}, it asks for {more} more requests to be sure"
    return f"{text}, not satisfied: {', '.join(trial.unmet)}" if trial.unmet else text


def lateness(runs: Sequence[Observed]) -> tuple[str, ...]:
    """A warning if LoadGen and our own clock disagree, with the run in which they differ most."""
    late = [run for run in runs if run.trial.p99 > _LATE * run.p99 + _LATE_MS]
    if not late:
        return ()
    worst = max(late, key=lambda run: run.trial.p99 - run.p99)
    return (
        f"LoadGen was late itself in {len(late)} of {len(runs)} runs: at {worst.trial.rate:.4g} requests/s it records "
        f"a p99 of {worst.trial.p99:.3g} ms where the instances and their queue took {worst.p99:.3g} ms; "
        "leave it a core (--instances N --cores M) on a quiet machine",
    )


def disturbances(loads: Sequence[Optional[Load]]) -> tuple[str, ...]:
    """Warnings about other processes on the instances' processors, in any run, since each one directs the search."""
    told = [load for load in loads if load is not None]
    texts = [UNTOLD] if len(told) < len(loads) else []
    stolen = [load.stolen for load in told if load.stolen > STOLEN]
    busy = [load.busy for load in told if load.busy > BUSY]
    if stolen:
        texts.append(
            f"the hypervisor took up to {max(stolen):.2f} cores of processor time in {len(stolen)} of {len(loads)} runs"
        )
    if busy:
        texts.append(
            f"other processes used up to {max(busy):.2f} cores on the same processors in {len(busy)} of {len(loads)} "
            "runs"
        )
    return tuple(texts)


def closed_loop(serve: Sequence[Serve], seconds: float) -> ClosedLoop:
    """Have every instance serve one request after the other; each serves at least one.

    Raises:
        QuantkitError: an instance failed (its own exception).
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
    return ClosedLoop(len(latencies) / elapsed, tuple(latencies))
