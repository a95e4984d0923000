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
        update / 5 if update < 5 else (1 + math.cos(math.pi * (update - 5) / 35)) / 2 for update in range(1, 41)
    ]
    assert found == pytest.approx(expected)
    assert max(found) == pytest.approx(1) and found[-1] == pytest.approx(0)


def test_it_falls_in_two_steps() -> None:
    found = rates(schedule="step", warmup_epochs=0)
    assert found == pytest.approx([1.0] * 20 + [0.1] * 10 + [0.01] * 10)


def test_it_stays() -> None:
    assert rates(schedule="constant", warmup_epochs=1) == pytest.approx(
        [update / 10 for update in range(1, 10)] + [1.0] * 31
    )


@pytest.mark.parametrize("schedule", ["cosine", "step", "constant"])
def test_a_warm_up_beyond_the_end_rises_all_the_time(schedule: str) -> None:
    found = rates(schedule=schedule, warmup_epochs=100)
    assert found[:-1] == pytest.approx([update / 39 for update in range(1, 39)] + [1.0])
