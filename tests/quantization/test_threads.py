from __future__ import annotations

import os
import threading

import pytest

from quantkit.quantization.threads import in_threads


@pytest.mark.parametrize("processors", [1, 2, 5])
def test_results_come_in_their_order(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(processors)))
    assert in_threads(lambda image: image**2, 7) == [0, 1, 4, 9, 16, 25, 36]


def test_as_much_is_worked_on_at_once_as_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    together = threading.Barrier(3, timeout=10)
    in_threads(lambda image: together.wait(), 6)


def test_what_goes_wrong_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda image: 1 // image, 3)
