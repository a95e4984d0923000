"""The fastest engine for a bundle on this machine: measured once, and remembered beside it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from quantkit.backends.base import session_threads
from quantkit.bundle.manifest import ENGINES_FILE
from quantkit.bundle.read import Bundle
from quantkit.contained import file_in
from quantkit.deployment.network import RunningNetwork, default_engine, open_network, usable_engines
from quantkit.errors import EngineError, EngineMissing, ForkError, QuantkitError, UserError
from quantkit.files import writing
from quantkit.host.cpu import read_cpu
from quantkit.text_files import read_bytes

_SECONDS = 1.5
_ROUNDS = 5
_WARM_UP = 3


@dataclass(frozen=True)
class Measured:
    """The median milliseconds of one image in each engine, and where that was: processor, threads and versions.

    ``refused`` are the other engines of ``versions``, which do not run it; not why, since reasons name folders.
    """

    cpu: str
    threads: int
    versions: dict[str, str]
    milliseconds: dict[str, FiniteFloat]
    refused: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether every engine of ``versions`` was tried, and one runs the network."""
        return bool(self.milliseconds) and {*self.milliseconds, *self.refused} == self.versions.keys()

    @property
    def fastest(self) -> str:
        """The engine that takes the least time."""
        return min(self.milliseconds, key=self.milliseconds.__getitem__)


class EngineSkippedWarning(UserWarning):
    """An engine that is installed does not run the network."""


# What could not be written beside its bundle.
_kept: dict[Path, list[Measured]] = {}


def open_fastest(bundle: Bundle) -> RunningNetwork:
    """Load a bundle's network in the engine that runs one image of it fastest here, of those that are installed.

    The stored sample is run, a batch of one, for 1.5 seconds in all; the engines take turns of a tenth of a second,
    whose first run does not count, and the medians are compared. What was found is kept in the bundle as
    ``engines.json``, for the same processor, number of threads and versions; where the bundle cannot be written, for
    the rest of the process. An engine that refuses the network is left out, with an ``EngineSkippedWarning``.

    Raises:
        EngineMissing: no engine is installed that can run the bundle.
        EngineError: no engine that is installed can run the network.
    """
    versions = usable_engines(bundle)
    if len(versions) < 2:
        return open_network(bundle, next(iter(versions), None) or default_engine(bundle))
    cpu, threads = read_cpu().model, session_threads()
    path = bundle.directory.resolve() / ENGINES_FILE
    known = _read(path)
    for each in known:
        same_place = (each.cpu, each.threads, each.versions) == (cpu, threads, versions)
        if same_place and each.is_complete:
            return open_network(bundle, each.fastest)
    networks, refused = _running(bundle, tuple(versions))
    milliseconds = median_milliseconds(networks, bundle.sample.input, _SECONDS)
    found = Measured(cpu, threads, versions, milliseconds, tuple(refused))
    _write(path, [*known, found])
    return networks[found.fastest]


def _running(bundle: Bundle, engines: Sequence[str]) -> tuple[dict[str, RunningNetwork], dict[str, str]]:
    """The engines that run the stored sample, and of the others the reasons why they do not."""
    networks: dict[str, RunningNetwork] = {}
    refused: dict[str, str] = {}
    image = bundle.sample.input
    for engine in engines:
        try:
            network = open_network(bundle, engine)
            network.run(image)
        except ForkError:
            # That is no property of the engine, to be remembered.
            raise
        except (EngineError, EngineMissing) as error:
            refused[engine] = str(error)
        else:
            networks[engine] = network
    if not networks:
        raise EngineError(f"no engine runs the network in {bundle.directory}: {'; '.join(refused.values())}")
    for engine, reason in refused.items():
        warnings.warn(f"{engine} is not considered: {reason}", EngineSkippedWarning, stacklevel=3)
    return networks, refused


def median_milliseconds(networks: Mapping[str, RunningNetwork], image: np.ndarray, seconds: float) -> dict[str, float]:
    """The median time of one run of each network.

    They take turns of several runs: the threads of the engine before still wait for work at the beginning of a turn.

    Args:
        networks: by engine.
        image: the input, float32 with its batch axis.
        seconds: how long to measure in all; each network runs at least once in each of five rounds.
    """
    for network in networks.values():
        for _ in range(_WARM_UP):
            network.run(image)
    ticks: dict[str, list[float]] = {name: [] for name in networks}
    turn = seconds / _ROUNDS / len(networks)
    for _ in range(_ROUNDS):
        for name, network in networks.items():
            network.run(image)
            began = before = perf_counter()
            while True:
                network.run(image)
                now = perf_counter()
                ticks[name].append((now - before) * 1e3)
                before = now
                if now - began >= turn:
                    break
    return {name: median(values) for name, values in ticks.items()}


def _read(path: Path) -> list[Measured]:
    """What was measured before; a file that is missing, damaged, a link or of another version says nothing."""
    if path in _kept:
        return _kept[path]
    try:
        content = b"" if path.is_symlink() else read_bytes(file_in(path.parent, path.name))
        return _schema().validate_json(content)
    except (OSError, UserError, ValidationError):
        return []


@cache
def _schema() -> TypeAdapter[list[Measured]]:
    """It takes longer to make than to use."""
    return TypeAdapter(list[Measured])


def _write(path: Path, measured: list[Measured]) -> None:
    text = json.dumps([asdict(each) for each in measured], indent=1) + "\n"
    # A link may lead to any file of the user's, which would be replaced.
    if path.is_symlink():
        _kept[path] = measured
        return
    try:
        with writing(path) as file:
            file.write(text.encode())
    except QuantkitError:
        _kept[path] = measured
