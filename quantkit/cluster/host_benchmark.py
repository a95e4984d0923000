"""What runs in Dask's workers to measure a suite on their hosts."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from quantkit.benchmark.measuring.measurement import Conditions
from quantkit.benchmark.results.result_files import CELLS, RUN
from quantkit.benchmark.suites.suite import Suite
from quantkit.cluster import benchmark_process
from quantkit.cluster.engine_process import read_frame, write_frame
from quantkit.errors import ClusterError, EngineError, error_of
from quantkit.files.text import MEBIBYTE, read_bytes

# What Dask's nanny sets for its workers.
_OF_DASK = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_")

_LARGEST_FILE = 256 * MEBIBYTE


@dataclass(frozen=True)
class Measured:
    """What a host has measured.

    Attributes:
        files: the contents of the run's folder by their paths in it.
        began, ended: seconds since the epoch, by the host's clock.
    """

    files: Mapping[str, bytes]
    began: float
    ended: float


_RUNNING: dict[str, subprocess.Popen[bytes]] = {}
_ENDED: set[str] = set()
_LOCK = Lock()


def measure_on_host(name: str, suite: Suite, conditions: Conditions) -> Measured:
    """Measure a suite in a process of its own; ``name`` is what ``end_measurement`` knows it by.

    Raises:
        ClusterError: the client has ended its work.
        QuantkitError: what the measurement raised.
    """
    with TemporaryDirectory(prefix="quantkit-") as place:
        folder = Path(place) / "run"
        began = time.time()
        _measure(name, pickle.dumps((suite, conditions, str(folder))))
        ended = time.time()
        paths = [folder / RUN, *sorted((folder / CELLS).glob("*.json"))]
        files = {str(path.relative_to(folder)): read_bytes(path, _LARGEST_FILE) for path in paths}
    return Measured(files, began, ended)


def end_measurement(name: str) -> None:
    """End a measurement, whatever it does."""
    with _LOCK:
        _ENDED.add(name)
        process = _RUNNING.get(name)
    if process is not None and process.stdin is not None:
        process.stdin.close()


def _measure(name: str, request: bytes) -> None:
    # Nothing is imported from the current folder.
    command = [sys.executable, "-P", "-m", benchmark_process.__name__]
    environment = {variable: value for variable, value in os.environ.items() if variable not in _OF_DASK}
    with _LOCK:
        if name in _ENDED:
            raise ClusterError("the client has ended its work")
        process = _RUNNING[name] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
    try:
        _check(_reply(process, request))
    finally:
        with _LOCK:
            del _RUNNING[name]
        process.kill()
        process.wait()


def _reply(process: subprocess.Popen[bytes], request: bytes) -> Any:
    assert process.stdin is not None and process.stdout is not None
    try:
        write_frame(process.stdin, request)
        reply = read_frame(process.stdout)
    except (BrokenPipeError, ValueError):
        reply = None
    if reply is None:
        raise EngineError("the process that measures has ended; its last words are in the worker's log")
    return pickle.loads(reply)


def _check(answer: Any) -> None:
    """Raise the error that the process told, if it did."""
    if answer[0] == "done":
        return
    raise error_of(answer[1], answer[2], EngineError)
