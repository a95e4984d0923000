"""What an epoch brought."""

from __future__ import annotations

from quantkit.training.epoch import Epoch
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
