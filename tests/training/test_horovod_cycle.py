"""How often Horovod's threads compare which gradients are ready."""

from __future__ import annotations

import os

import numpy as np
import pytest

from quantkit.training.horovod_cycle import cycle_milliseconds, set_cycle
from tests.training.conftest import CLASSES, SIZE, tiny


def test_longer_steps_have_longer_cycles() -> None:
    model = tiny()
    cycle = cycle_milliseconds(model, 10_000, 1)
    assert cycle_milliseconds(model, 40_000, 1) == pytest.approx(2 * cycle)
    assert cycle_milliseconds(model, 40_000, 4) == pytest.approx(cycle)


def test_a_step_loses_least() -> None:
    samples = 20_000
    # Of the convolution's 3 x 3 x 3 weights for each of 8 channels, and of the dense layer's 8 for each class.
    work = samples * (SIZE * SIZE * 8 * 27 + 8 * CLASSES)
    milliseconds = 3 * work / 30e6
    cycles = np.geomspace(1, 50, 1001)
    lost = 0.1 * milliseconds / cycles + cycles
    assert cycle_milliseconds(tiny(), samples, 1) == pytest.approx(cycles[lost.argmin()], rel=0.01)


def test_cycles_have_bounds() -> None:
    assert cycle_milliseconds(tiny(), 1, 1) == 1
    assert cycle_milliseconds(tiny(), 100_000_000, 1) == 50


def test_what_users_set_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", "2.5")
    set_cycle(tiny(), 10_000, 1)
    assert os.environ["HOROVOD_CYCLE_TIME"] == "2.5"
    monkeypatch.delenv("HOROVOD_CYCLE_TIME")
    set_cycle(tiny(), 10_000, 1)
    assert float(os.environ["HOROVOD_CYCLE_TIME"]) == pytest.approx(cycle_milliseconds(tiny(), 10_000, 1), abs=0.05)
