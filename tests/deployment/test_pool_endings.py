"""However a process ends that has instances: none is left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.deployment.test_pool import lives

LIMIT = 60.0

PROGRAM = """
import json, sys, threading, time
import numpy as np
import quantkit

predictor = quantkit.load(sys.argv[1], instances=2)
images = np.zeros((64, *predictor.input_shape), np.float32)
print(json.dumps(predictor._runner.pids()), flush=True)
if sys.argv[2] == "busy":
    for _ in range(4):
        threading.Thread(target=lambda: [predictor.predict(images) for _ in range(10**6)], daemon=True).start()
    time.sleep(0.1)
if sys.argv[3] == "end":
    sys.exit(3)
if sys.argv[3] == "raise":
    raise KeyError("for the test")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("work", ["idle", "busy"])
@pytest.mark.parametrize("ending", ["end", "raise", signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=str)
def test_none_is_left(directory: Path, work: str, ending: str | signal.Signals) -> None:
    how = ending if isinstance(ending, str) else "wait"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(directory), work, how], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    pids = json.loads(process.stdout.readline())
    if isinstance(ending, signal.Signals):
        assert process.stdout.readline() == b"ready\n" and all(map(lives, pids))
        process.send_signal(ending)
    errors = process.communicate(timeout=LIMIT)[1].decode()
    expected = {"end": 3, "raise": 1}
    assert process.returncode == (expected[ending] if isinstance(ending, str) else -ending), errors
    deadline = time.monotonic() + LIMIT
    while any(map(lives, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    # Threads that still predict are told that the predictor is closed.
    if ending in (signal.SIGKILL, signal.SIGTERM) or (ending, work) == ("end", "idle"):
        assert not errors
