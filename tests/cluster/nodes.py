"""The nodes of a cluster, each a process on this machine, as a user starts them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.processes import environment


@contextmanager
def scheduler_and_worker(folder: Path, *options: str, port: int = 0) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A scheduler, at a free port or this one, and a worker; their file is ``cluster.json`` in the folder."""
    path = folder / "cluster.json"
    path.unlink(missing_ok=True)
    common = ["--scheduler-file", str(path), "--host", "127.0.0.1", "--no-dashboard", *options]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for program in (["scheduler", "--port", str(port)], ["worker", "--nthreads", "1"]):
            command = [sys.executable, "-m", "dask", *program, *common]
            started.append(subprocess.Popen(command, env=environment(), cwd=folder, stderr=subprocess.DEVNULL))
            while not path.exists():
                assert started[0].poll() is None
                time.sleep(0.1)
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()
