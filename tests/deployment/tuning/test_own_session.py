"""Engines by themselves."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from quantkit.deployment.network import RunningNetwork
from quantkit.deployment.tuning.own_session import _mxnet


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

    session = _mxnet(RunningNetwork("mxnet", run, None, None))
    assert session.parallel == 1
    data = np.zeros((1, 2), np.float32)
    callers = [session.caller(place, data) for place in range(4)]
    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(caller) for caller in callers * 3]:
            each.result()
    assert most == 1
