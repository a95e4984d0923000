"""How many threads prepare the samples of a training."""

from __future__ import annotations

import pytest

from quantkit.training.feed_workers import enough_workers, usual_workers

LARGE = 3, 128, 128


@pytest.mark.parametrize(
    ("workers", "waiting", "enough"),
    [(2, 0.0, 2), (2, 0.5, 4), (3, 0.1, 4), (1, 0.75, 4), (2, 0.9, 20), (0, 0.5, 1), (0, 0.8, 4)],
)
def test_workers_that_would_keep_up(workers: int, waiting: float, enough: int) -> None:
    assert enough_workers(workers, waiting, LARGE) == enough


@pytest.mark.parametrize("shape", [(3, 127, 128), (3, 4, 63, 65), (128,)])
def test_small_samples_have_one(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.training.feed_workers.worker_threads", lambda: 7)
    assert (usual_workers(shape), usual_workers(LARGE)) == (1, 7)
    # More would not help.
    assert (enough_workers(1, 0.8, shape), enough_workers(0, 0.8, shape)) == (None, 1)
