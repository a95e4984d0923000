"""Run a checkpoint repeatedly in one of three ways, in a separate process, since the profiler changes settings.

    profiled_run WAY SYMBOL PARAMS 1,3,224,224 RUNS FOLDER

``plain`` times each run; ``events`` also has MXNet's profiler record each operator; ``kernels`` prints a
mark after each operator, which assigns the engine's verbose output before it to that operator. RUNS is 0
for as many as fit into a few seconds.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from quantkit.backends.mxnet.calls import engine_errors
from quantkit.backends.mxnet.checkpoint import bind_checkpoint
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.errors import QuantkitError

WINDOWS, EVENTS = "windows.json", "events.json"
RUN_BEGINS, NODE_DONE = "quantkit: run", "quantkit: done "

# Kernels are compiled and weights reordered in the first run; clocks and caches settle in the next.
_WARM_UP = 3
_SECONDS = 3.0
_FEWEST, _MOST = 5, 50


def main(way: str, symbol: str, params: str, shape: str, runs: str, folder: str) -> None:
    """Load, bind to inputs of ``shape`` (comma-separated numbers, batch first), warm up, run and write the results."""
    with engine_errors("run the network"):
        mxnet, bound = load_mxnet(), bind_checkpoint(symbol, params, shape)

        def forward() -> None:
            bound.forward(is_train=False)
            mxnet.nd.waitall()

        for _ in range(_WARM_UP):
            forward()
        ways: dict[str, Callable[..., None]] = {"plain": _plain, "events": _events, "kernels": _kernels}
        ways[way](mxnet, bound, forward, int(runs) or _affordable(forward), Path(folder))


def _affordable(forward: Callable[[], None]) -> int:
    before = time.perf_counter()
    forward()
    return max(_FEWEST, min(_MOST, int(_SECONDS / (time.perf_counter() - before))))


def _plain(mxnet: Any, bound: Any, forward: Callable[[], None], runs: int, folder: Path) -> None:
    windows = []
    for _ in range(runs):
        # The profiler stamps its events with this clock.
        begun = time.time_ns()
        forward()
        windows.append((begun, time.time_ns()))
    (folder / WINDOWS).write_text(json.dumps(windows))


def _events(mxnet: Any, bound: Any, forward: Callable[[], None], runs: int, folder: Path) -> None:
    # These are on by default and would record each operator a second time.
    unwanted = dict.fromkeys(("profile_imperative", "profile_memory", "profile_api", "aggregate_stats"), False)
    mxnet.profiler.set_config(filename=str(folder / EVENTS), profile_symbolic=True, **unwanted)
    mxnet.profiler.set_state("run")
    _plain(mxnet, bound, forward, runs, folder)
    mxnet.profiler.set_state("stop")
    mxnet.profiler.dump()


def _kernels(mxnet: Any, bound: Any, forward: Callable[[], None], runs: int, folder: Path) -> None:
    # The engine writes through C's buffer, so the marks must, too.
    c = ctypes.CDLL(None)

    def mark(name: bytes, _: Any) -> None:
        c.printf(b"%s%s\n", NODE_DONE.encode(), name)

    bound.set_monitor_callback(mark)
    for _ in range(runs):
        c.printf(b"%s\n", RUN_BEGINS.encode())
        forward()
    c.fflush(None)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except QuantkitError as error:
        sys.exit(str(error))
