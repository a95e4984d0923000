"""The queue in front of instances."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue

import pytest

from quantkit.benchmark.measuring.dispatch import Dispatcher, Request

pytestmark = pytest.mark.timing


class Log:
    """What was done and in which thread; ``failures`` counts the calls that report one."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.threads: list[str] = []
        self.failures = 0

    def add(self, request: Request) -> None:
        self.done.append(request.number)
        self.threads.append(threading.current_thread().name)

    def fail(self) -> None:
        self.failures += 1


def test_one_instance_serves_in_order_of_arrival() -> None:
    log = Log()
    with Dispatcher([lambda: None], log.add, log.fail) as dispatcher:
        for number in range(100):
            dispatcher.submit(number)
    assert log.done == list(range(100))
    assert len(set(log.threads)) == 1
    assert log.failures == 0


def test_the_first_idle_instance_takes_the_next_request() -> None:
    served = [0, 0]

    def serve(number: int, seconds: float) -> None:
        served[number] += 1
        time.sleep(seconds)

    log = Log()
    with Dispatcher([lambda: serve(0, 0.2), lambda: serve(1, 0.01)], log.add, log.fail) as dispatcher:
        for number in range(15):
            dispatcher.submit(number)
    assert sum(served) == 15 and sorted(log.done) == list(range(15))
    assert 1 <= served[0] <= 3


def test_arrivals_are_stamped() -> None:
    requests: list[Request] = []
    before = time.monotonic_ns()
    with Dispatcher([lambda: time.sleep(0.01)], requests.append, lambda: None) as dispatcher:
        dispatcher.submit(0)
        dispatcher.submit(1)
        submitted = time.monotonic_ns()
    assert before <= requests[0].arrived <= requests[1].arrived <= submitted


@pytest.mark.parametrize("where", ["serve", "done"])
def test_an_error_ends_it_and_is_reported_once(where: str) -> None:
    log = Log()
    calls = 0

    def serve() -> None:
        nonlocal calls
        calls += 1
        if where == "serve" and calls == 3:
            raise OSError("gone")

    def done(request: Request) -> None:
        log.add(request)
        if where == "done" and request.number == 2:
            raise OSError("gone")

    with Dispatcher([serve], done, log.fail) as dispatcher:
        for number in range(100):
            dispatcher.submit(number)
        deadline = time.monotonic() + 5
        while dispatcher.error is None and time.monotonic() < deadline:
            time.sleep(0.001)
    assert isinstance(dispatcher.error, OSError)
    assert calls == 3
    assert log.failures == 1


def test_instances_that_fail_together_are_reported_once() -> None:
    together = threading.Barrier(2)

    def serve() -> None:
        together.wait(5)
        raise OSError("gone")

    log = Log()
    with Dispatcher([serve, serve], log.add, log.fail) as dispatcher:
        dispatcher.submit(0)
        dispatcher.submit(1)
        time.sleep(0.2)
    assert isinstance(dispatcher.error, OSError)
    assert log.failures == 1


def test_ctrl_c_leaves_waiting_requests_alone_and_does_not_wait() -> None:
    log = Log()
    release: SimpleQueue[None] = SimpleQueue()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Dispatcher([release.get], log.add, log.fail) as dispatcher:
        for number in range(10):
            dispatcher.submit(number)
        raise KeyboardInterrupt
    assert time.monotonic() - begun < 1
    for _ in range(10):
        release.put(None)
    deadline = time.monotonic() + 0.2
    while time.monotonic() < deadline:
        time.sleep(0.01)
    assert log.done in ([], [0])
