"""All facts about a machine and its installation, as one value."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.extras import EXTRAS, missing_packages
from quantkit.files import files
from quantkit.host.cpu import Cpu, read_cpu
from quantkit.host.limits import Limits, read_limits
from quantkit.host.load import Load, read_load
from quantkit.host.threads import Threads, read_threads

# Their engine is a separate fact.
_OF_MXNET = ("onednn", "mkl")


@dataclass(frozen=True)
class EngineBuild:
    """The installed mxnet, or why none can be used.

    ``distribution`` is the wheel's name (``mxnet``, ``mxnet-mkl``; empty if none is installed), ``features``
    the build's enabled features, ``int8_operators`` the registered operators that compute in INT8;
    ``int8_obstacle`` is why INT8 networks cannot run on this processor, and the remedy; else empty.
    ``problem`` and ``remedy`` are empty if the engine can be used.
    """

    distribution: str
    version: str
    features: tuple[str, ...] = ()
    int8_operators: tuple[str, ...] = ()
    int8_obstacle: str = ""
    problem: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Home:
    """quantkit's folder for downloads, and whether it can be written (or made)."""

    path: str
    writable: bool


@dataclass(frozen=True)
class Facts:
    """A machine and its installation.

    ``gluoncv`` is its version, None if it is not installed; ``extras`` are the missing packages of each extra of
    quantkit, except those of MXNet; ``load`` is None if the system does not show it; ``onnx_engines`` are the
    versions of the installed engines that run ONNX files, by name.
    """

    python: tuple[int, int, int]
    numpy: str
    engine: EngineBuild
    gluoncv: Optional[str]
    extras: Mapping[str, tuple[str, ...]]
    home: Home
    cpu: Cpu
    limits: Limits
    load: Optional[Load]
    threads: Threads
    onnx_engines: Mapping[str, str] = field(default_factory=dict)


def gather(engine: Callable[[], EngineBuild], onnx_engines: Mapping[str, str]) -> Facts:
    """Read everything but ``onnx_engines``; ``engine`` asks mxnet, see ``quantkit.backends.mxnet.build.installed``.

    It is called last, because importing mxnet changes the environment and keeps a core busy.
    """
    cpu, threads = read_cpu(), read_threads()
    load = read_load(cpu.usable)
    return Facts(
        python=(sys.version_info.major, sys.version_info.minor, sys.version_info.micro),
        numpy=np.__version__,
        engine=engine(),
        gluoncv=_version("gluoncv"),
        extras={extra: missing_packages(extra) for extra in EXTRAS if extra not in _OF_MXNET},
        home=Home(str(files.home()), _writable(files.home())),
        cpu=cpu,
        limits=read_limits(),
        load=load,
        threads=threads,
        onnx_engines=onnx_engines,
    )


def _version(package: str) -> Optional[str]:
    """The version of an installed package, without importing it; None if it is absent."""
    if importlib.util.find_spec(package) is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _writable(folder: Path) -> bool:
    """Whether files can be created in the folder, or in its nearest existing parent."""
    existing = next((part for part in (folder, *folder.parents) if part.exists()), folder)
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
