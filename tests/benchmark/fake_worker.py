"""A worker without an engine: each request sleeps; it misbehaves as its parameters file says.

The "symbol" names a JSON file: ``{"seconds": 0.01, "fault": "...", "instance": 0, "value": 1.0, "kernels": {}}``.
Its first request takes ``"first"`` seconds more.
Only the instance with that number (the environment's INSTANCE) misbehaves.
"""

import json
import os
import signal
import sys
import time

import numpy as np


def main() -> None:
    settings = json.loads(sys.argv[2])
    answers = os.fdopen(settings["write"], "w")
    commands = os.fdopen(settings["read"])
    network: dict = {}
    for line in commands:
        command = json.loads(line)
        name = command["command"]
        if name == "load":
            with open(command["files"]["symbol"]) as file:
                network = json.load(file)
        fault = network.get("fault") if str(network.get("instance", 0)) == os.environ["INSTANCE"] else None
        if fault and fault.startswith(name + ":"):
            misbehave(fault.partition(":")[2].replace("once ", ""), answers)
            if ":once " in fault:
                network["fault"] = None
        answers.write(json.dumps({"event": name, **answer(name, command, network, fault)}) + "\n")
        answers.flush()


def misbehave(fault: str, answers) -> None:
    print("last words", file=sys.stderr, flush=True)
    if fault == "garbage":
        answers.write("\x00garbage\n")
        answers.flush()
        time.sleep(60)
    elif fault == "noise":
        print('{"event": "measure"}\n' * 1000, flush=True)
    elif fault == "exit":
        os._exit(3)
    elif fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "late":
        time.sleep(0.5)
    elif fault == "delayed":
        time.sleep(0.02)
    elif fault == "hang":
        time.sleep(600)
    elif fault == "close":
        answers.close()
        time.sleep(600)


def answer(name: str, command: dict, network: dict, fault) -> dict:
    starts, ends = [], []
    if name == "warm":
        run(network, starts, ends)
        return {"starts": starts, "ends": ends, "steady": True}
    if name == "measure":
        time.sleep(max(0, command["start"] - time.monotonic_ns()) / 1e9)
        while not ends or ends[-1] < command["stop"]:
            run(network, starts, ends)
        return {"starts": starts, "ends": ends}
    if name == "kernels":
        return network.get("kernels", {})
    if name == "outputs":
        value = network["value"] * (2 if fault == "wrong" else 1)
        np.savez(command["path"], output0=np.full(4, value, np.float32))
    return {}


def run(network: dict, starts: list, ends: list) -> None:
    starts.append(time.monotonic_ns())
    time.sleep(network["seconds"] + network.pop("first", 0))
    ends.append(time.monotonic_ns())


main()
