"""What an epoch brought."""

from __future__ import annotations

import pytest

from quantkit.training.epoch import Epoch, enough_workers
from quantkit.training.validation import Validated


def epoch(number: int, correct: int, loss: float = 1.0) -> Epoch:
    return Epoch(number, 0.5, 0.1, 20.0, 3000, 5.0, Validated(100, correct, loss))


def test_speed_and_waiting() -> None:
    assert epoch(1, 50).throughput == 150 and epoch(1, 50).waiting == 0.25


def test_more_correct_ones_or_a_smaller_loss_are_better() -> None:
    assert epoch(2, 51, 2.0).better_than(epoch(1, 50, 1.0))
    assert epoch(2, 50, 0.9).better_than(epoch(1, 50, 1.0))
    assert not epoch(2, 50, 1.0).better_than(epoch(1, 50, 1.0))
    assert not epoch(2, 49, 0.1).better_than(epoch(1, 50, 1.0))


@pytest.mark.parametrize(
    ("workers", "waiting", "enough"),
    [(2, 0.0, 2), (2, 0.5, 4), (3, 0.1, 4), (1, 0.75, 4), (2, 0.9, 20), (0, 0.5, 1), (0, 0.8, 4)],
)
def test_workers_that_would_keep_up(workers: int, waiting: float, enough: int) -> None:
    assert enough_workers(workers, waiting) == enough
