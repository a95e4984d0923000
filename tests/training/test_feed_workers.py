"""How many threads prepare the samples of a training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantkit.errors import UserError
from quantkit.training.feed_workers import FeedWorkers, enough_workers, feed_workers
from tests.training.conftest import coloured

ARRAYS = coloured(8)
FILES = replace(ARRAYS, independent=True)


@pytest.fixture(autouse=True)
def processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.training.feed_workers.worker_threads", lambda: 7)


@pytest.mark.parametrize("shape", [(3, 127, 128), (3, 4, 63, 65), (128,)])
def test_small_samples_in_arrays_have_one(shape: tuple[int, ...]) -> None:
    assert not ARRAYS.independent
    assert feed_workers(None, ARRAYS, shape) == (1, False)
    # Large photographs may be decoded for a network that reads little of them.
    assert feed_workers(None, FILES, shape) == (7, True)
    assert feed_workers(None, ARRAYS, (3, 128, 128)) == (7, True)


def test_users_give_their_number() -> None:
    assert feed_workers(3, ARRAYS, (3, 8, 8)) == (3, False)
    assert feed_workers(0, FILES, (3, 8, 8)) == (0, True)
    with pytest.raises(UserError, match="workers is 257; give at most 256"):
        feed_workers(257, FILES, (3, 8, 8))


@pytest.mark.parametrize(
    ("workers", "waiting", "enough"),
    [(2, 0.0, 2), (2, 0.5, 4), (3, 0.1, 4), (1, 0.75, 4), (2, 0.9, 20), (0, 0.5, 1), (0, 0.8, 4)],
)
def test_workers_that_would_keep_up(workers: int, waiting: float, enough: int) -> None:
    assert enough_workers(FeedWorkers(workers, scale=True), waiting) == enough


def test_more_are_not_advised_where_they_would_not_help() -> None:
    assert enough_workers(FeedWorkers(1, scale=False), 0.8) is None
    assert enough_workers(FeedWorkers(0, scale=False), 0.8) == 1
