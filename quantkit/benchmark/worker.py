"""One instance of a benchmark: runs networks in the interpreter of a build and sends back raw clock readings.

This file runs in foreign environments, Python 3.7 and later, and needs the standard library, NumPy and
mxnet alone. ``python worker.py probe`` prints the build's facts as one JSON line. ``python worker.py
serve SETTINGS`` obeys commands: SETTINGS is a JSON object with ``read`` and ``write``, the inherited
descriptors of a channel of JSON lines that nothing else in the process knows, and ``cpus`` and ``nodes``
to bind itself to (either may be null). Standard output goes to standard error, so that nothing that the
engine prints can be taken for an answer.

Each command is an object with ``command`` and its arguments, and gets one answer with ``event``: the
command's name, or ``error``. Long ones send ``progress`` in between. All times are nanoseconds of the
system's monotonic clock, which is the same in every process of a machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
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


def main(arguments: list[str]) -> None:
    """Probe or serve."""
    if arguments == ["probe"]:
        channel = _private_output()
        channel.write(json.dumps(probe()) + "\n")
        channel.flush()
        return
    settings = json.loads(arguments[1])
    die_with_parent(settings["parent"])
    bind(settings["cpus"], settings["nodes"])
    load_openmp()
    os.dup2(2, 1)
    answers = os.fdopen(settings["write"], "w")
    with os.fdopen(settings["read"]) as commands:
        Instance(answers).serve(commands)


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


def load_openmp() -> None:
    """Load GNU's OpenMP before the engine does, and give this thread back all its hardware threads.

    Told to bind threads, libgomp binds the one that loads it to the first place at once. OpenBLAS, which native
    builds multiply matrices with, then counts a single hardware thread and would use no other.
    """
    allowed = os.sched_getaffinity(0)
    with contextlib.suppress(OSError):
        ctypes.CDLL("libgomp.so.1")
    os.sched_setaffinity(0, allowed)


class _Version:
    """A version that compares by its numbers, in place of distutils' two classes."""

    def __init__(self, text: object) -> None:
        self.version = [int(part) for part in re.findall(r"\d+", str(text))]

    def __lt__(self, other: object) -> bool:
        return self.version < _numbers(other)

    def __le__(self, other: object) -> bool:
        return self.version <= _numbers(other)

    def __gt__(self, other: object) -> bool:
        return self.version > _numbers(other)

    def __ge__(self, other: object) -> bool:
        return self.version >= _numbers(other)

    def __eq__(self, other: object) -> bool:
        return self.version == _numbers(other)


def _numbers(version: object) -> list[int]:
    return version.version if isinstance(version, _Version) else _Version(version).version


def load_mxnet() -> Any:
    """Import mxnet where Python and NumPy are newer than it knows."""
    import numpy

    for name, value in (
        ("bool", bool), ("int", int), ("float", float), ("object", object), ("complex", complex), ("str", str),
        ("PZERO", 0.0), ("NZERO", -0.0), ("PINF", numpy.inf), ("NINF", -numpy.inf), ("Inf", numpy.inf),
        ("NAN", numpy.nan), ("NaN", numpy.nan),
    ):  # fmt: skip
        if name not in numpy.__dict__:
            setattr(numpy, name, value)
    for name, other in (("alltrue", "all"), ("in1d", "isin"), ("row_stack", "vstack"), ("product", "prod"),
                        ("trapz", "trapezoid"), ("msort", "sort")):  # fmt: skip
        if name not in numpy.__dict__ and hasattr(numpy, other):
            setattr(numpy, name, getattr(numpy, other))
    if importlib.util.find_spec("distutils") is None:
        package, version = types.ModuleType("distutils"), types.ModuleType("distutils.version")
        vars(version).update(LooseVersion=_Version, StrictVersion=_Version)
        vars(package).update(version=version)
        sys.modules["distutils"], sys.modules["distutils.version"] = package, version
    if importlib.util.find_spec("requests") is None:
        # Some releases ask for it when they are imported; they use it for downloads alone.
        sys.modules["requests"] = types.ModuleType("requests")
    import mxnet
    import mxnet.runtime  # mxnet 1.5 does not do so itself

    return mxnet


def operator_names(mxnet: Any) -> set[str]:
    """The operators registered in this build, which tell what it can do better than its version."""
    count, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    mxnet.base.check_call(mxnet.base._LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    return {names[i].decode() for i in range(count.value)}


def probe() -> dict[str, Any]:
    """What this build is, and the result of a small convolution whose true value is known."""
    import numpy

    mxnet = load_mxnet()
    data = numpy.arange(2 * 3 * 8 * 8, dtype="float32").reshape(2, 3, 8, 8) / 100
    weight = numpy.arange(4 * 3 * 3 * 3, dtype="float32").reshape(4, 3, 3, 3) / 100
    result = mxnet.nd.Convolution(
        mxnet.nd.array(data), mxnet.nd.array(weight), kernel=(3, 3), num_filter=4, no_bias=True
    ).asnumpy()
    windows = numpy.stack([data[:, :, y : y + 6, x : x + 6] for y in range(3) for x in range(3)])
    expected = numpy.einsum("kncyx,fck->nfyx", windows, weight.reshape(4, 3, 9))
    return {
        "python": sys.version.split()[0],
        "numpy": numpy.__version__,
        "mxnet": mxnet.__version__,
        "library": _library(mxnet),
        "features": sorted(name for name, feature in mxnet.runtime.Features().items() if feature.enabled),
        "int8": "_sg_mkldnn_conv" in operator_names(mxnet),
        "convolution_error": float(numpy.abs(result - expected).max() / numpy.abs(expected).max()),
    }


def _library(mxnet: Any) -> str:
    return os.path.join(os.path.dirname(mxnet.__file__), "libmxnet.so")


class Instance:
    """One network at a time, bound to one batch size at a time."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers
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

    def do_load(self, symbol: str, params: str) -> dict[str, Any]:
        """Read a checkpoint; answers with what this process is made of."""
        import numpy

        self._mxnet = load_mxnet()
        self._symbol = self._mxnet.sym.load(symbol)
        values = self._mxnet.nd.load(params)
        self._args = {name[4:]: value for name, value in values.items() if name.startswith("arg:")}
        self._aux = {name[4:]: value for name, value in values.items() if name.startswith("aux:")}
        return {
            "python": sys.version.split()[0],
            "numpy": numpy.__version__,
            "mxnet": self._mxnet.__version__,
            "libraries": _loaded_libraries(),
        }

    def do_bind(self, input: str, data: str) -> None:
        """Bind the network to the arrays in the .npy file ``data`` as its input of that name."""
        import numpy

        value = self._mxnet.nd.array(numpy.load(data))
        self._bound = self._symbol.bind(
            self._mxnet.cpu(), args=dict(self._args, **{input: value}), aux_states=self._aux, grad_req="null"
        )

    def do_warm(self, limit: int, least: int) -> dict[str, Any]:
        """Run until steady, at least ``least`` times, but begin no run after ``limit`` nanoseconds.

        Steady: the last three runs took as long as the three before them, within five percent.
        """
        starts: list[int] = []
        ends: list[int] = []
        begun = time.monotonic_ns()
        while len(ends) < least or (time.monotonic_ns() - begun < limit and not _steady(starts, ends)):
            self._run(starts, ends)
        return {"starts": starts, "ends": ends, "steady": _steady(starts, ends)}

    def do_measure(self, start: int, stop: int, least: int) -> dict[str, Any]:
        """Run from the time ``start`` until a run ends after ``stop`` and there were ``least``."""
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

        numpy.savez(path, *(value.asnumpy() for value in self._bound.outputs))

    def _run(self, starts: list[int], ends: list[int]) -> None:
        begun = time.monotonic_ns()
        for output in self._bound.forward(is_train=False):
            output.wait_to_read()
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
    """The OpenMP runtimes and memory allocators in this process, by file name."""
    with open("/proc/self/maps") as maps:
        names = {os.path.basename(line.split()[-1]) for line in maps if "/" in line}
    return sorted(name for name in names if re.match(r"lib(gomp|iomp5|omp|jemalloc|tcmalloc)", name))


if __name__ == "__main__":
    main(sys.argv[1:])
