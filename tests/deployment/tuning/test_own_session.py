"""Engines by themselves."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from quantkit.deployment.network import RunningNetwork
from quantkit.deployment.tuning import own_session


def test_in_mxnet_callers_take_turns() -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def run(data: np.ndarray) -> list[np.ndarray]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return [data]

    session = own_session._mxnet(RunningNetwork("mxnet", run, None, None))
    assert session.parallel == 1
    data = np.zeros((1, 2), np.float32)
    callers = [session.caller(place, data) for place in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(caller) for caller in callers * 3]:
            each.result()
    assert most == 1


def test_openvino_has_run_once_alone_before_there_are_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where its first runs are at the same time, it may wait for ever."""
    ran: list[np.ndarray] = []
    request = SimpleNamespace(infer=lambda inputs, **options: ran.append(inputs[0]))
    compiled = SimpleNamespace(create_infer_request=lambda: request, get_property=lambda name: 2)
    core = SimpleNamespace(read_model=lambda content: None, compile_model=lambda *given: compiled)
    library = SimpleNamespace(Core=lambda: core)
    monkeypatch.setattr(own_session, "OPENVINO", SimpleNamespace(library=lambda: library))
    sample, data = np.zeros((1, 2), np.float32), np.ones((4, 2), np.float32)
    session = own_session._openvino(b"", "THROUGHPUT", sample)
    assert ran == [sample] and session.parallel == 2
    session.caller(0, data)()
    assert ran[-1] is data
