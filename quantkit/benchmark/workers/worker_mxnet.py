"""What the worker needs of MXNet; see ``worker.py``, which loads this file in the interpreter of a build."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import re
import sys
import types
from typing import Any

_INT8_LSTM, _INSTRUCTIONS = "_contrib_quantized_rnn", "DNNL_MAX_CPU_ISA"

_INFINITY, _NAN = float("inf"), float("nan")

# The names that mxnet uses and that NumPy 1.24 and 2 have removed.
_REMOVED_NUMPY_NAMES = {
    "bool": bool, "int": int, "float": float, "object": object, "complex": complex, "str": str,
    "PZERO": 0.0, "NZERO": -0.0, "PINF": _INFINITY, "NINF": -_INFINITY, "Inf": _INFINITY, "NAN": _NAN, "NaN": _NAN,
}  # fmt: skip


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


@functools.lru_cache(maxsize=None)
def load_mxnet() -> Any:
    """Import mxnet where Python and NumPy are newer than it knows, once."""
    import numpy

    for name, value in _REMOVED_NUMPY_NAMES.items():
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


def facts() -> dict[str, Any]:
    """The build's version, library and switches, and whether it has INT8 convolutions."""
    load_openmp()
    mxnet = load_mxnet()
    return {
        "version": mxnet.__version__,
        "library": os.path.join(os.path.dirname(mxnet.__file__), "libmxnet.so"),
        "features": sorted(name for name, feature in mxnet.runtime.Features().items() if feature.enabled),
        "int8": "_sg_mkldnn_conv" in operator_names(mxnet),
    }


def convolution(data: Any, weight: Any) -> Any:
    """A convolution without bias or padding of float32 arrays (batch, in, height, width) and (out, in, 3, 3)."""
    nd = load_mxnet().nd
    result = nd.Convolution(nd.array(data), nd.array(weight), kernel=(3, 3), num_filter=len(weight), no_bias=True)
    return result.asnumpy()


class Network:
    """A checkpoint: ``files`` are its ``symbol`` and ``params``. The environment tells the number of threads."""

    def __init__(self, files: dict[str, str], threads: int) -> None:
        self.settings: dict[str, Any] = {}
        self._threads = threads
        with open(files["symbol"], encoding="utf-8") as file:
            if _INT8_LSTM in file.read():
                # The kernel works without VNNI alone; the engine reads this when it first computes.
                os.environ[_INSTRUCTIONS] = os.environ.get(_INSTRUCTIONS) or "AVX512_CORE"
                self.settings[_INSTRUCTIONS] = os.environ[_INSTRUCTIONS]
        self._mxnet = load_mxnet()
        self._symbol = self._mxnet.sym.load(files["symbol"])
        values = self._mxnet.nd.load(files["params"])
        self._args = {name[4:]: value for name, value in values.items() if name.startswith("arg:")}
        self._aux = {name[4:]: value for name, value in values.items() if name.startswith("aux:")}

    def bind(self, name: str, data: Any) -> None:
        """Take an array as the input of that name."""
        args = dict(self._args, **{name: self._mxnet.nd.array(data)})
        self._bound = self._symbol.bind(self._mxnet.cpu(), args=args, aux_states=self._aux, grad_req="null")

    def run(self) -> None:
        """Run once, to the end."""
        for output in self._bound.forward(is_train=False):
            output.wait_to_read()

    def outputs(self) -> list[Any]:
        """The outputs of the last run, in the network's order."""
        # Arrays in a layout of oneDNN's are reordered by this thread. With a team of its own, libgomp would have more
        # threads than processors, and all would sleep after each operator from then on; see backends/mxnet/outputs.py.
        set_threads = self._mxnet.base._LIB.MXSetNumOMPThreads
        set_threads(1)
        try:
            return [value.asnumpy() for value in self._bound.outputs]
        finally:
            set_threads(self._threads)

    def kernels(self) -> dict[str, int]:
        """Nothing: MXNet tells its kernels from its start on or not at all, and telling costs time."""
        return {}
