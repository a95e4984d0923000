"""An interpreter without an engine: it answers as Python, venv, pip and the worker's probe do.

The environment's FAKE is JSON: ``log``, a file for its steps; ``facts`` and ``about``, replacing what the probe and
the base interpreter say; and for a step's name (about, venv, install, uninstall, probe) how it misbehaves.
"""

import json
import os
import signal
import sys
import time

SELF = os.path.abspath(sys.argv[0])
LIBRARY = os.path.join(os.path.dirname(SELF), "libmxnet.so")
FAKE = json.loads(os.environ["FAKE"])


def main() -> None:
    arguments = [each for each in sys.argv[1:] if each != "-I"]
    step = step_of(arguments)
    with open(FAKE["log"], "a") as log:
        variables = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "PIP_"))}
        call = {"step": step, "pid": os.getpid(), "environment": variables, "arguments": arguments}
        if step == "probe":
            call["engine"] = arguments[2] if len(arguments) > 2 else None
        log.write(json.dumps(call) + "\n")
    misbehave(FAKE.get(step, ""))
    if step == "about":
        about = {"version": [3, 11], "executable": os.path.realpath(SELF), "abi": "cpython-311-x86_64-linux-gnu"}
        print(json.dumps({**about, **FAKE.get("about_facts", {})}))
    elif step == "venv":
        os.makedirs(os.path.join(arguments[2], "bin"))
        os.symlink(os.path.realpath(SELF), os.path.join(arguments[2], "bin", "python"))
        open(os.path.join(arguments[2], "pyvenv.cfg"), "w").close()
    elif step == "install":
        print("Collecting mxnet\n  Downloading mxnet.whl (25.4 MB)")
        with open(LIBRARY, "w") as file:
            file.write("engine")
    elif step == "probe":
        print(json.dumps({**facts(), **FAKE.get("facts", {})}))


def step_of(arguments: list) -> str:
    if arguments[0] == "-c":
        return "about"
    if arguments[:2] == ["-m", "venv"]:
        return "venv"
    if arguments[:2] == ["-m", "pip"]:
        return "install" if "install" in arguments else "uninstall"
    return arguments[1]


def facts() -> dict:
    return {
        "engine": "mxnet", "version": "1.5.0", "python": "3.11.7", "numpy": "1.26.4", "library": LIBRARY,
        "features": ["F16C"], "int8": False, "convolution_error": 1e-7,
    }  # fmt: skip


def misbehave(fault: str) -> None:
    kind, _, words = fault.partition(":")
    if words:
        print(words, file=sys.stderr, flush=True)
    if kind == "exit":
        sys.exit(3)
    elif kind == "kill":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif kind == "slow":
        time.sleep(0.7)
    elif kind == "hang":
        time.sleep(600)
    elif kind == "garbage":
        print("Hello.")
        sys.exit()


main()
