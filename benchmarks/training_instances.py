"""Instances of one core each that run a script of the benchmarks together."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from quantkit.backends.mxnet.subprocesses import environment
from quantkit.benchmark.placement.placement import place
from quantkit.deployment.child_process import ChildProcess
from quantkit.errors import EngineError
from quantkit.extras import missing_packages
from quantkit.host.topology import read_topology
from quantkit.training.launch import KVStoreName, launch

_LOOK_EVERY = 0.1


def kvstores() -> tuple[KVStoreName, ...]:
    """Through what instances can exchange gradients here."""
    return ("dist_sync",) if missing_packages("horovod") else ("dist_sync", "horovod")


def on_instances(script: Path, told: Mapping[str, Any], kvstore: KVStoreName, instances: int) -> list[str]:
    """Run a script on instances of one core each, with what it is told after ``--instance``; what each prints.

    Raises:
        EngineError: it ends with an error.
    """
    start = launch(kvstore, instances, None)
    placements = place(f"{instances}x1", read_topology())
    with ExitStack() as stack:
        for server in start.servers():
            variables = environment(**server.variables, OMP_NUM_THREADS="1")
            module = f"quantkit.training.{server.module}"
            stack.callback(ChildProcess(server.noun, module, server.settings, variables).close)
        processes = []
        for number, placement in enumerate(placements):
            given = json.dumps({**told, "cpus": placement.cpus})
            variables = environment(**start.variables(number), OMP_NUM_THREADS="1")
            command = [sys.executable, str(script), "--instance", given]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, env=variables, text=True)
            stack.callback(process.kill)
            processes.append(process)
        # One that is left alone would wait without an end.
        while None in (codes := [process.poll() for process in processes]):
            if any(codes):
                break
            time.sleep(_LOOK_EVERY)
        if any(codes):
            raise EngineError(f"an instance of {script.name} through {kvstore} ended with an error")
        return [process.communicate()[0] for process in processes]
