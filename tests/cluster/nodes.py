"""The nodes of a cluster, each a process on this machine, as a user starts them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from quantkit.cluster.connect import connected
from tests.processes import environment


@contextmanager
def node(arguments: Sequence[str], folder: Path) -> Iterator[None]:
    """What ``dask ARGUMENTS`` starts in a folder, once it is ready; the file of its scheduler is ``cluster.json``."""
    command = [sys.executable, "-m", "dask", *arguments]
    process = subprocess.Popen(command, env=environment(), cwd=folder, stderr=subprocess.DEVNULL)
    try:
        while not (folder / "cluster.json").exists():
            assert process.poll() is None
            time.sleep(0.1)
        if arguments[0] == "worker":
            with connected(str(folder / "cluster.json")) as client:
                client.wait_for_workers(1, timeout=60)
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def scheduler_and_worker(
    folder: Path, *options: str, port: int = 0, of_worker: Sequence[str] = ()
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A scheduler, at a free port or this one, and a worker; their file is ``cluster.json`` in the folder."""
    path = folder / "cluster.json"
    path.unlink(missing_ok=True)
    common = ["--scheduler-file", str(path), "--host", "127.0.0.1", "--no-dashboard", *options]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for program in (["scheduler", "--port", str(port)], ["worker", "--nthreads", "1", *of_worker]):
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
