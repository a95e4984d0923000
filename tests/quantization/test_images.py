from __future__ import annotations

import os
import threading

import pytest

from quantkit.quantization.simulation.images import for_each_image


@pytest.mark.parametrize("processors", [1, 2, 5])
def test_results_come_in_the_order_of_the_images(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(processors)))
    assert for_each_image(lambda image: image**2, 7) == [0, 1, 4, 9, 16, 25, 36]


def test_as_many_images_are_worked_on_at_once_as_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    together = threading.Barrier(3, timeout=10)
    for_each_image(lambda image: together.wait(), 6)


def test_what_goes_wrong_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    with pytest.raises(ZeroDivisionError):
        for_each_image(lambda image: 1 // image, 3)
