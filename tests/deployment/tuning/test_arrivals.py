"""Requests at random times."""

from __future__ import annotations

import threading
import time

import pytest

from quantkit.deployment.tuning.arrivals import at_random
from quantkit.errors import EngineError


def test_each_request_is_served_once_about_as_often_as_they_come() -> None:
    served: list[int] = []
    found = at_random([lambda: served.append(0)] * 2, 400.0, 0.5)
    assert len(served) == len(found.latencies)
    # Poisson arrivals: 200 of them, with a standard deviation of 14.
    assert 120 < len(served) < 280
    assert min(found.latencies) >= 0


def test_latencies_count_from_when_a_request_was_due() -> None:
    found = at_random([lambda: time.sleep(0.02)], 200.0, 0.3)
    # Four times as many come as are served, so that the last ones wait for those before.
    assert min(found.latencies) >= 20
    assert max(found.latencies) > 250
    assert found.rate < 60


def test_what_is_never_answered_is_not_waited_for() -> None:
    held = threading.Event()
    begun = time.monotonic()
    found = at_random([lambda: held.wait(20.0)], 100.0, 0.2)
    assert time.monotonic() - begun < 10
    held.set()
    assert found.rate == 0
    assert time.monotonic() - begun < 10
    assert min(found.latencies) > 150


def test_an_error_ends_it() -> None:
    def fail() -> None:
        raise EngineError("no")

    with pytest.raises(EngineError, match="no"):
        at_random([fail], 100.0, 0.2)
