"""A clock of which only work takes time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quantkit.data.batches import Batch, batches
from quantkit.evaluation import feed, stream_rates


class Clock:
    """Time that passes only where somebody works."""

    now = 0.0
    asked = 0

    def __call__(self) -> float:
        self.asked += 1
        assert self.asked < 200_000, "nobody works, so this would go on for ever"
        return self.now

    def batches(self, *arguments: Any, workers: int, **options: Any) -> Iterator[Batch]:
        """Batches that so many workers read while the network runs: each is ready when its work has been shared."""
        source = batches(*arguments, workers=0, **options)
        ready = self.now
        while True:
            asked = self.now
            batch = next(source, None)
            if batch is None:
                return
            ready += (self.now - asked) / max(workers, 1)
            self.now = max(asked, ready)
            yield batch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stream_rates, "perf_counter", clock)
    monkeypatch.setattr(feed, "batches", clock.batches)
    return clock
