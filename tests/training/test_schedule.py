"""The learning rate, against its formulas."""

from __future__ import annotations

import math

import pytest

from quantkit.training.config import TrainingConfig
from quantkit.training.schedule import rate_schedule

STEPS = 10


def rates(**options: object) -> list[float]:
    """Those of the updates 1, 2, ... of four epochs of ten steps, in parts of the peak."""
    config = TrainingConfig(epochs=4, batch_size=64, learning_rate=0.4, **options)  # type: ignore[arg-type]
    schedule = rate_schedule(config, STEPS)
    assert config.peak_rate == pytest.approx(0.1)
    return [schedule(update) / 0.1 for update in range(1, 4 * STEPS + 1)]


def test_it_rises_linearly_and_falls_along_a_cosine() -> None:
    found = rates(schedule="cosine", warmup_epochs=0.5)
    expected = [
        update / 5 if update < 5 else (1 + math.cos(math.pi * (update - 5) / 36)) / 2 for update in range(1, 41)
    ]
    assert found == pytest.approx(expected)
    assert max(found) == pytest.approx(1) and 0 < found[-1] < 0.01


def test_it_falls_in_two_steps() -> None:
    found = rates(schedule="step", warmup_epochs=0)
    assert found == pytest.approx([1.0] * 20 + [0.1] * 10 + [0.01] * 10)


def test_it_stays() -> None:
    assert rates(schedule="constant", warmup_epochs=1) == pytest.approx(
        [update / 10 for update in range(1, 10)] + [1.0] * 31
    )


@pytest.mark.parametrize("schedule", ["cosine", "step", "constant"])
def test_a_warm_up_takes_half_of_the_training_at_most(schedule: str) -> None:
    found = rates(schedule=schedule, warmup_epochs=1e300)
    assert found[:20] == pytest.approx([update / 20 for update in range(1, 21)])
    assert all(rate > 0 for rate in found)


def test_a_single_step_learns() -> None:
    config = TrainingConfig(epochs=1, batch_size=256, learning_rate=1.0)
    assert rate_schedule(config, 1)(1) == pytest.approx(0.5)
