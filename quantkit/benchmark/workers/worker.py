"""One instance of a benchmark: runs networks in the interpreter of a build and sends back raw clock readings.

This file runs in foreign environments and needs the standard library, NumPy and an engine alone. It is written for
Python 3.7 and later, and tried with 3.11. What it needs of the engine ENGINE is in ``worker_ENGINE.py`` beside it:
``facts()`` and ``convolution(data, weight)`` for the probe, and the class ``Network(files, threads)`` with
``settings``, ``bind(input, data)``, ``run()``, which returns when the outputs are computed, ``outputs()`` and
``kernels()``.

``python worker.py probe [ENGINE]`` prints the build's facts as one JSON line. ``python worker.py
serve SETTINGS`` obeys commands: SETTINGS is a JSON object with ``engine``, its number of ``threads``,
``read`` and ``write``, the inherited descriptors of a channel of JSON lines that nothing else in the process
knows, and ``cpus`` and ``nodes`` to bind itself to (either may be null). Standard output goes to standard
error, so that nothing that the engine prints can be taken for an answer.

Each command is an object with ``command`` and its arguments, and gets one answer with ``event``: the
command's name, or ``error``. Long ones send ``progress`` in between. All times are nanoseconds of the
system's monotonic clock, which is the same in every process of a machine.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import sys
import time
import types
from typing import Any, Optional, TextIO

_PR_SET_PDEATHSIG = 1
_MPOL_BIND = 2
_SET_MEMPOLICY = 238  # the system call's number on x86-64
_PROGRESS_EVERY = 1_000_000_000

# The share of a core that a process whose threads rest may take; how often that is looked at and for how long, in s.
_RESTING, _LOOK_EVERY, _REST_WITHIN = 0.1, 0.01, 0.5

# In the order in which an interpreter is asked for them.
ENGINES = ("mxnet", "onnxruntime", "openvino")


def main(arguments: list[str]) -> None:
    """Probe or serve."""
    if arguments[0] == "probe":
        channel = _private_output()
        channel.write(json.dumps(probe(*arguments[1:] or [present_engine()])) + "\n")
        channel.flush()
        return
    settings = json.loads(arguments[1])
    die_with_parent(settings["parent"])
    die_first()
    bind(settings["cpus"], settings["nodes"])
    os.dup2(2, 1)
    answers = os.fdopen(settings["write"], "w")
    with os.fdopen(settings["read"]) as commands:
        Instance(answers, settings["engine"], settings["threads"]).serve(commands)


def _private_output() -> TextIO:
    """The real standard output; what others print from now on goes to standard error."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return channel


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the one that started it ends, however it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def die_first() -> None:
    """Have the kernel kill this process before others where memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError:
        pass  # a system that does not let it


def bind(cpus: Optional[list[int]], nodes: Optional[list[int]]) -> None:
    """Bind this process and all threads that it will start to hardware threads and to memory nodes."""
    if cpus is not None:
        os.sched_setaffinity(0, cpus)
    if nodes is not None:
        words = [0] * (max(nodes) // 64 + 1)
        for node in nodes:
            words[node // 64] |= 1 << node % 64
        mask = (ctypes.c_ulong * len(words))(*words)
        libc = ctypes.CDLL(None, use_errno=True)
        # The kernel takes one bit fewer than it is told.
        if libc.syscall(_SET_MEMPOLICY, _MPOL_BIND, mask, ctypes.c_ulong(64 * len(words) + 1)) != 0:
            raise OSError(ctypes.get_errno(), f"cannot bind memory to nodes {nodes}")


def rest() -> None:
    """Return when the threads of this process rest, or after half a second.

    Engines let threads look for work in a loop for a while before they sleep: ONNX Runtime's take 30 ms of processor
    time after the last run, which would fall into the next contestant's turn.
    """
    begun = time.monotonic()
    while time.monotonic() - begun < _REST_WITHIN:
        looked, used = time.monotonic(), time.process_time()
        time.sleep(_LOOK_EVERY)
        if time.process_time() - used < _RESTING * (time.monotonic() - looked):
            return


def load_engine(name: str) -> Any:
    """The file beside this one that knows the engine, as a module; the engine's telemetry is off."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"worker_{name}.py")
    loader = importlib.machinery.SourceFileLoader(f"worker_{name}", path)
    module = types.ModuleType(loader.name)
    loader.exec_module(module)
    return module


def present_engine() -> str:
    """The first engine that this interpreter has; mxnet where it has none, so that its absence is told."""
    return next((name for name in ENGINES if importlib.util.find_spec(name) is not None), ENGINES[0])


def probe(name: str) -> dict[str, Any]:
    """What this build is, and how far the result of a small convolution is from its true value."""
    import numpy

    engine = load_engine(name)
    data = numpy.arange(2 * 3 * 8 * 8, dtype="float32").reshape(2, 3, 8, 8) / 100
    weight = numpy.arange(4 * 3 * 3 * 3, dtype="float32").reshape(4, 3, 3, 3) / 100
    facts = engine.facts()
    result = engine.convolution(data, weight)
    windows = numpy.stack([data[:, :, y : y + 6, x : x + 6] for y in range(3) for x in range(3)])
    expected = numpy.einsum("kncyx,fck->nfyx", windows, weight.reshape(4, 3, 9))
    return {
        "engine": name,
        "python": sys.version.split()[0],
        "numpy": numpy.__version__,
        **facts,
        "convolution_error": float(numpy.abs(result - expected).max() / numpy.abs(expected).max()),
    }


class Instance:
    """One network at a time, bound to one batch size at a time, in the engine ``engine`` with ``threads`` threads."""

    def __init__(self, answers: TextIO, engine: str, threads: int) -> None:
        self._answers = answers
        self._engine, self._threads = engine, threads
        self._reported = 0

    def serve(self, commands: TextIO) -> None:
        """Obey commands until the channel closes."""
        for line in commands:
            command = json.loads(line)
            name = command.pop("command")
            try:
                self._answer(event=name, **(getattr(self, "do_" + name)(**command) or {}))
            except Exception as error:  # whatever it is, the parent must hear of it
                self._answer(event="error", command=name, message=f"{type(error).__name__}: {error}")

    def _answer(self, **answer: Any) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()
        self._reported = time.monotonic_ns()

    def do_load(self, files: dict[str, str]) -> dict[str, Any]:
        """Read a network's files, paths by role; answers with what this process is made of."""
        import numpy

        engine = load_engine(self._engine)
        version = engine.facts()["version"]
        self._network = engine.Network(files, self._threads)
        return {
            "python": sys.version.split()[0],
            "numpy": numpy.__version__,
            self._engine: version,
            "libraries": _loaded_libraries(),
            "settings": self._network.settings,
        }

    def do_bind(self, input: str, data: str) -> None:
        """Bind the network to the arrays in the .npy file ``data`` as its input of that name."""
        import numpy

        self._network.bind(input, numpy.load(data))

    def do_warm(self, limit: int, least: int) -> dict[str, Any]:
        """Run until steady, at least ``least`` times, but begin no run after ``limit`` nanoseconds.

        Steady: the last three runs took as long as the three before them, within five percent. It answers when the
        engine's threads rest.
        """
        starts: list[int] = []
        ends: list[int] = []
        begun = time.monotonic_ns()
        while len(ends) < least or (time.monotonic_ns() - begun < limit and not _steady(starts, ends)):
            self._run(starts, ends)
        rest()
        return {"starts": starts, "ends": ends, "steady": _steady(starts, ends)}

    def do_measure(self, start: int, stop: int, least: int) -> dict[str, Any]:
        """Run from the time ``start`` until a run ends after ``stop`` and there were ``least``.

        It answers when the engine's threads rest.
        """
        starts: list[int] = []
        ends: list[int] = []
        gc.collect()
        gc.disable()
        time.sleep(max(0, start - time.monotonic_ns() - 2_000_000) / 1e9)
        while time.monotonic_ns() < start:
            pass
        while True:
            self._run(starts, ends)
            if ends[-1] >= stop and len(ends) >= least:
                break
        gc.enable()
        rest()
        return {"starts": starts, "ends": ends}

    def do_run(self) -> dict[str, Any]:
        """Run once."""
        starts: list[int] = []
        ends: list[int] = []
        self._run(starts, ends)
        return {"start": starts[0], "end": ends[0]}

    def do_outputs(self, path: str) -> None:
        """Write the outputs of the last run to the .npz file ``path``, in the network's order."""
        import numpy

        numpy.savez(path, *self._network.outputs())

    def do_kernels(self) -> dict[str, Any]:
        """How many convolutions, dense and recurrent layers run in INT8, ``of`` how many; neither if it is not told."""
        return dict(self._network.kernels())

    def _run(self, starts: list[int], ends: list[int]) -> None:
        begun = time.monotonic_ns()
        self._network.run()
        ended = time.monotonic_ns()
        starts.append(begun)
        ends.append(ended)
        if ended - self._reported > _PROGRESS_EVERY:
            self._answer(event="progress", runs=len(ends), last=ended - begun)


def _steady(starts: list[int], ends: list[int]) -> bool:
    if len(ends) < 6:
        return False
    times = [end - start for start, end in zip(starts, ends)]
    before, last = sorted(times[-6:-3])[1], sorted(times[-3:])[1]
    return abs(last - before) <= 0.05 * before


def _loaded_libraries() -> list[str]:
    """The threading runtimes and memory allocators in this process, by file name."""
    with open("/proc/self/maps") as maps:
        names = {os.path.basename(line.split()[-1]) for line in maps if "/" in line}
    return sorted(name for name in names if re.match(r"lib(gomp|iomp5|omp|tbb|jemalloc|tcmalloc)", name))


if __name__ == "__main__":
    main(sys.argv[1:])
