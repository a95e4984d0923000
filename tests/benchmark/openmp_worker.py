"""A worker without an engine: binds itself as the real one does, touches memory and starts OpenMP threads."""

import ctypes
import json
import os
import runpy
import sys
import time
from pathlib import Path

WORKER = Path(__file__).parents[2] / "quantkit" / "benchmark" / "workers" / "worker.py"


def main() -> None:
    settings = json.loads(sys.argv[2])
    runpy.run_path(str(WORKER))["bind"](settings["cpus"], settings["nodes"])
    gomp = ctypes.CDLL("libgomp.so.1")
    spin = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: spin_for(0.02))
    memory = []
    answers = os.fdopen(settings["write"], "w")
    for line in os.fdopen(settings["read"]):
        command = json.loads(line)
        memory.append(b"\1" * (command["mebibytes"] << 20))
        gomp.GOMP_parallel(spin, None, 0, 0)
        answers.write(json.dumps({"event": command["command"]}) + "\n")
        answers.flush()


def spin_for(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


main()
