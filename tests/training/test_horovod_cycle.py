"""How often Horovod's threads negotiate which gradients are ready."""

from __future__ import annotations

import os
import socket
import sys
from types import ModuleType
from typing import Optional

import numpy as np
import pytest

from quantkit.training.horovod import Horovod
from quantkit.training.horovod_cycle import cycle_time
from tests.training.conftest import CLASSES, SIZE, tiny


def test_longer_steps_have_longer_cycles() -> None:
    model = tiny()
    cycle = cycle_time(model, 10_000, 1)
    assert cycle_time(model, 40_000, 1) == pytest.approx(2 * cycle)
    assert cycle_time(model, 40_000, 4) == pytest.approx(cycle)


def test_a_step_loses_least() -> None:
    samples = 20_000
    # Of the convolution's 3 x 3 x 3 weights for each of 8 channels, and of the dense layer's 8 for each class.
    work = samples * (SIZE * SIZE * 8 * 27 + 8 * CLASSES)
    milliseconds = 3 * work / 30e6
    cycles = np.geomspace(1, 50, 1001)
    lost = 0.1 * milliseconds / cycles + cycles
    assert cycle_time(tiny(), samples, 1) == pytest.approx(cycles[lost.argmin()], rel=0.01)


def test_cycles_have_bounds() -> None:
    assert cycle_time(tiny(), 1, 1) == 1
    assert cycle_time(tiny(), 100_000_000, 1) == 50


@pytest.mark.parametrize(("given", "read"), [(None, "7.3"), ("2.5", "2.5")])
def test_horovod_starts_with_it_unless_users_gave_one(
    monkeypatch: pytest.MonkeyPatch, given: Optional[str], read: str
) -> None:
    found: list[str] = []
    started = ModuleType("horovod.mxnet")
    vars(started).update(init=lambda: found.append(os.environ["HOROVOD_CYCLE_TIME"]), rank=int, size=int)
    package = ModuleType("horovod")
    vars(package).update(mxnet=started)
    monkeypatch.setitem(sys.modules, "horovod", package)
    monkeypatch.setitem(sys.modules, "horovod.mxnet", started)
    # Set before, so that it is as it was afterwards.
    monkeypatch.setenv("HOROVOD_CYCLE_TIME", given or "")
    if given is None:
        del os.environ["HOROVOD_CYCLE_TIME"]
    with socket.create_server(("127.0.0.1", 0)) as rendezvous:
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", str(rendezvous.getsockname()[1]))
        Horovod(compress=False, cycle=7.31)
    assert found == [read]
