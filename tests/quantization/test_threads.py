from __future__ import annotations

import threading

import pytest

from quantkit.quantization import threads
from quantkit.quantization.threads import in_threads


def _allow(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr(threads, "worker_threads", lambda most: min(most, workers))


@pytest.mark.parametrize("processors", [1, 2, 5])
def test_results_come_in_their_order(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _allow(monkeypatch, processors)
    assert in_threads(lambda image: image**2, 7) == [0, 1, 4, 9, 16, 25, 36]


def test_as_much_is_worked_on_at_once_as_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    _allow(monkeypatch, 3)
    together = threading.Barrier(3, timeout=10)
    in_threads(lambda image: together.wait(), 6)


def test_what_goes_wrong_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    _allow(monkeypatch, 2)
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda image: 1 // image, 3)
