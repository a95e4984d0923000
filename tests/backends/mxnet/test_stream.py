"""A network that runs over streams of batches."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from quantkit.backends.mxnet import stream
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.backends.mxnet.stream import BoundNetwork
from quantkit.errors import EngineError
from tests.networks import DATA, Builder

pytestmark = pytest.mark.usefixtures("engine")


def negation() -> BoundNetwork:
    b = Builder()
    return BoundNetwork(b.graph(b.op("negative", "minus", DATA)), 4)


def batches(*sizes: int) -> list[np.ndarray]:
    return [np.full((size, 3), size, np.float32) for size in sizes]


def check(network: BoundNetwork, *sizes: int) -> None:
    for (output,), batch in zip(network.outputs(batches(*sizes)), batches(*sizes), strict=True):
        np.testing.assert_array_equal(output, -batch)


def test_it_is_bound_once_for_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = []

    class Counted(MxnetSession):
        def __init__(self, *given: object) -> None:
            sessions.append(self)
            super().__init__(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(stream, "MxnetSession", Counted)
    network = negation()
    check(network)
    assert not sessions
    check(network, 2, 4, 1)
    check(network, 3)
    assert len(sessions) == 1


def test_a_copy_is_bound_anew() -> None:
    network = negation()
    check(network, 4)
    check(pickle.loads(pickle.dumps(network)), 4, 2)


def test_larger_batches_than_agreed_are_refused() -> None:
    with pytest.raises(EngineError, match="a batch of 5 samples came where at most 4 were agreed"):
        check(negation(), 4, 5)
