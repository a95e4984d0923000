"""The process that measures a suite on one host: it has the environment of a command, not that of Dask's worker.

A request comes on standard input, the reply leaves on the descriptor that standard output had; what is told goes to
standard error. The process ends with its standard input, and what it has started with it.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from pathlib import Path
from typing import IO

from quantkit.cluster.engine_process import read_frame, write_frame


def main() -> None:
    """Answer one request: a pickled suite, its conditions and the folder to write."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    request = read_frame(sys.stdin.buffer)
    if request is not None:
        threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
        write_frame(out, pickle.dumps(_answer(request)))
        # The thread that waits for the end of standard input holds it.
        os._exit(0)


def _answer(request: bytes) -> tuple[str, ...]:
    """("done",), or ("failed", name of quantkit's error, message)."""
    from quantkit.benchmark.measuring.measurement import run_benchmark
    from quantkit.errors import QuantkitError

    suite, conditions, folder = pickle.loads(request)
    try:
        run_benchmark(suite, Path(folder), conditions, lambda message: print(message, file=sys.stderr))
    except QuantkitError as error:
        return "failed", type(error).__name__, str(error)
    return ("done",)


def _end_with(stream: IO[bytes]) -> None:
    from quantkit.host.children import kill_descendants

    stream.read()
    kill_descendants()
    os._exit(0)


if __name__ == "__main__":
    main()
