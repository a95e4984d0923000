"""A machine with known speeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from quantkit.bundle import Bundle
from quantkit.deployment.tuning import contestant, decoding, finals, halving, rounds, search, trials
from quantkit.deployment.tuning.contestant import Contestant
from tests.deployment.tuning.machine import STREAMS, Machine, Speed


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch, bundle: Bundle) -> Iterator[Callable[[Speed], Machine]]:
    """Makes a machine with one way to run beside the default, and one engine by itself."""

    def made(speed: Speed) -> Machine:
        machine = Machine(speed)
        for module in (trials, rounds, contestant, decoding):
            monkeypatch.setattr(module, "Running", machine.running)
        usual, other = Contestant(bundle, "mxnet"), Contestant(bundle, "openvino", STREAMS)
        # What a search can do within its budget is not for the speed of this machine to say.
        monkeypatch.setattr(search, "monotonic", lambda: 0.0)
        monkeypatch.setattr(search, "default", lambda bundles: usual)
        monkeypatch.setattr(halving, "structures", lambda bundles, goal: [usual, other])
        monkeypatch.setattr(finals, "own", lambda best: [Contestant(bundle, "openvino", own="THROUGHPUT")])
        return machine

    yield made
