"""The only place that imports mxnet, after a shim that lets it run on today's Python and NumPy.

The wheels of mxnet 1.6 to 1.9 use NumPy names that were removed after they were built
(``np.bool`` and the like, NumPy 1.24) and Python's ``distutils`` (removed in 3.12). The shim restores
the names before the import; it replaces nothing that still exists.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from threading import get_ident
from typing import Any

import numpy as np

from quantkit.errors import EngineMissing
from quantkit.host.cpu import read_cpu
from quantkit.host.current_folder import searching_elsewhere
from quantkit.host.limits import read_limits
from quantkit.host.threads import recommended_threads, threads_asked

REMEDY = (
    "install one of them, each in its own virtual environment with Python 3.11, which MXNet's wheels need (this is "
    f"{sys.version_info.major}.{sys.version_info.minor}): pip install 'quantkit[onednn]' (mxnet 1.9.1) or "
    "pip install 'quantkit[mkl]' (mxnet-mkl 1.6.0); both need the system library libgomp1"
)

_LIBRARY_PATH = "LD_LIBRARY_PATH"

# Larger arrays are copied by several threads, which belong to the thread that copies: with those of the engine they
# are more than processors, and libgomp then has threads sleep after each operator, which takes longer than most of
# them. MXNet reads this at the first copy.
PARALLEL_SIZE = "MXNET_CPU_PARALLEL_SIZE"

# The first two take about as long to import as MXNet itself, the third a twentieth of that. Without scikit-learn the
# deprecated mxnet.model.FeedForward has another base class; few functions use SciPy.
_SLOW = ("sklearn.base", "scipy.stats", "scipy.sparse")

REMOVED_NUMPY_NAMES = {"bool": bool, "int": int, "float": float, "object": object, "complex": complex, "str": str}


@cache
def load_mxnet() -> Any:
    """Import mxnet with the shim in place and return the module.

    Raises:
        EngineMissing: mxnet is not installed, cannot be loaded, or is a build without MKL-DNN/oneDNN.
    """
    # First, so that nothing changes in deployments without it.
    check_installed()
    _restore_removed_names()
    # oneDNN reads this once; with "0" every INT8 operator would fail later with an obscure message.
    os.environ.pop("MXNET_MKLDNN_ENABLED", None)
    # By itself MXNet takes half of the hardware threads, with or without SMT; libgomp reads this once, too.
    threads = threads_asked() or recommended_threads(read_cpu(), read_limits())
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    os.environ.setdefault(PARALLEL_SIZE, str(2**31 - 1))
    try:
        with _library_path_kept(), _without(*_SLOW), _stand_ins(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import mxnet
    except (ImportError, OSError) as error:
        raise EngineMissing(f"no usable mxnet in this environment ({error}); {REMEDY}") from error
    if "_sg_mkldnn_conv" not in operator_names(mxnet):
        raise EngineMissing(
            f"mxnet {mxnet.__version__} is installed but was built without MKL-DNN/oneDNN, which INT8 needs; {REMEDY}"
        )
    arrays, statistics = "scipy.sparse", "scipy.stats"
    for module, name, hidden in (
        (mxnet.contrib.quantization, "stats", statistics),
        (mxnet.test_utils, "ss", statistics),
        (mxnet.ndarray.sparse, "spsp", arrays),
        (mxnet.ndarray.utils, "spsp", arrays),
    ):
        if getattr(module, name) is None:
            setattr(module, name, _ImportedWhenUsed(hidden))
    return mxnet


def check_installed() -> None:
    """Check that mxnet is installed, without importing it.

    Raises:
        EngineMissing: it is not installed.
    """
    if "mxnet" not in sys.modules and importlib.util.find_spec("mxnet") is None:
        raise EngineMissing(f"no mxnet in this environment; {REMEDY}")


def load_gluoncv() -> Any:
    """Import gluoncv's model zoo (after mxnet) and return the ``gluoncv`` module.

    Raises:
        EngineMissing: gluoncv, or a package that it needs, is not installed.
    """
    from PIL import ImageFile

    load_mxnet()
    # gluoncv makes Pillow accept truncated images in the whole process.
    truncated_images = ImageFile.LOAD_TRUNCATED_IMAGES
    try:
        with _library_path_kept(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import gluoncv
            import gluoncv.model_zoo
        ImageFile.LOAD_TRUNCATED_IMAGES = truncated_images
    except ImportError as error:
        raise EngineMissing(f"gluoncv cannot be imported ({error}); {REMEDY}") from error
    return gluoncv


def operator_names(mxnet: Any) -> frozenset[str]:
    """The names of the operators registered in this build, which show its abilities better than its version."""
    import ctypes

    count, names = ctypes.c_uint(), ctypes.POINTER(ctypes.c_char_p)()
    mxnet.base.check_call(mxnet.base._LIB.MXListAllOpNames(ctypes.byref(count), ctypes.byref(names)))
    return frozenset(names[i].decode() for i in range(count.value))


@contextmanager
def _library_path_kept() -> Iterator[None]:
    """Keep the current folder out of LD_LIBRARY_PATH, where MXNet searches for its own library.

    OpenCV, which MXNet imports if it is installed, adds an empty entry, which all processes started later inherit.
    """
    kept = searching_elsewhere(os.environ).get(_LIBRARY_PATH)

    def restore() -> None:
        if kept is None:
            os.environ.pop(_LIBRARY_PATH, None)
        else:
            os.environ[_LIBRARY_PATH] = kept

    restore()
    try:
        yield
    finally:
        restore()


@contextmanager
def _without(*names: str) -> Iterator[None]:
    """Let imports of this thread find no modules of these names, unless they are imported already."""
    hidden = _Hidden(frozenset(names), get_ident())
    sys.meta_path.insert(0, hidden)
    try:
        yield
    finally:
        sys.meta_path.remove(hidden)


@dataclass(frozen=True)
class _Hidden(MetaPathFinder):
    """A finder that fails for some modules, in one thread."""

    names: frozenset[str]
    thread: int

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname in self.names and get_ident() == self.thread:
            raise ModuleNotFoundError(f"{fullname} is not needed here", name=fullname)


class _ImportedWhenUsed(types.ModuleType):
    """Stands for a module, and imports it at the first use of a name of its."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Modules in place of two that take a seventh of MXNet's import, and of which it needs little or nothing by then.

    Where setuptools is installed, it takes the place of ``distutils``.
    """
    package, version = _distutils_stub()
    modules = {"distutils": package, "distutils.version": version, "requests": _ImportedWhenUsed("requests")}
    added = {name: module for name, module in modules.items() if name not in sys.modules}
    sys.modules.update(added)
    try:
        yield
    finally:
        for name, module in added.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _restore_removed_names() -> None:
    for name, value in REMOVED_NUMPY_NAMES.items():
        if name not in np.__dict__:
            setattr(np, name, value)
    # Other finders would import setuptools, which stands in for it.
    if "distutils" not in sys.modules and PathFinder.find_spec("distutils") is None:
        sys.modules["distutils"], sys.modules["distutils.version"] = _distutils_stub()


def _distutils_stub() -> tuple[types.ModuleType, types.ModuleType]:
    """``distutils.version.LooseVersion``, the only part of distutils that mxnet and gluoncv use."""
    from packaging.version import Version

    package, version = types.ModuleType("distutils"), types.ModuleType("distutils.version")
    version.LooseVersion = version.StrictVersion = Version  # type: ignore[attr-defined]
    package.version = version  # type: ignore[attr-defined]
    return package, version
