"""The fastest engine for a bundle on this machine: measured once, and remembered under QUANTKIT_HOME."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from statistics import median

import numpy as np
from pydantic import FiniteFloat, TypeAdapter, ValidationError

from quantkit.backends.base import session_threads
from quantkit.bundle.bundle import Bundle
from quantkit.deployment.network import RunningNetwork, default_engine, open_network, usable_engines
from quantkit.errors import EngineError, EngineMissing, ForkError, QuantkitError, UserError
from quantkit.files.files import home, locked, writing
from quantkit.files.text import read_bytes
from quantkit.host.cpu import read_cpu
from quantkit.host.timing import durations, interleaved

_SECONDS = 1.5
_ROUNDS = 5
_WARM_UP = 3

# Measurements of one bundle: on machines that share a home, or with several versions of engines.
_MOST_KEPT = 32


@dataclass(frozen=True)
class Measured:
    """The median milliseconds of one image in each engine, on a processor with a number of threads and versions.

    ``refused`` are the other engines of ``versions``, which do not run the network; the reasons, which name folders,
    are not kept.
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
        """The engine with the least median time."""
        return min(self.milliseconds, key=self.milliseconds.__getitem__)


class EngineSkippedWarning(UserWarning):
    """An installed engine does not run the network."""


# Measurements that could not be written, by the bundle's hash.
_kept: dict[str, list[Measured]] = {}


def open_fastest(bundle: Bundle) -> RunningNetwork:
    """Load a bundle's network in the installed engine that runs one image fastest here.

    The stored sample, a batch of one, runs for about 1.5 seconds in all, in five rounds. In each every engine has a
    turn, whose first run does not count; the medians of the others are compared. The result is kept under QUANTKIT_HOME
    in ``engines``, for the same bundle, processor, number of threads and versions; if that cannot be written, for
    the rest of the process. An engine that does not run the network is left out, with an ``EngineSkippedWarning``.

    Raises:
        EngineMissing: no engine for the bundle is installed.
        EngineError: no installed engine can run the network.
        BundleError: symbol and parameters are not a network.
        ForkError: an engine was used before this process was forked.
    """
    versions = usable_engines(bundle)
    if len(versions) < 2:
        return open_network(bundle, next(iter(versions), None) or default_engine(bundle))
    cpu, threads = read_cpu().model, session_threads()
    key = bundle.sha256
    for each in _read(key):
        same_place = (each.cpu, each.threads, each.versions) == (cpu, threads, versions)
        if same_place and each.is_complete:
            return open_network(bundle, each.fastest)
    networks, refused = _running(bundle, tuple(versions))
    milliseconds = median_milliseconds(networks, bundle.sample.input, _SECONDS)
    measured = Measured(cpu, threads, versions, milliseconds, tuple(refused))
    _keep(key, measured)
    return networks[measured.fastest]


def _running(bundle: Bundle, engines: Sequence[str]) -> tuple[dict[str, RunningNetwork], dict[str, str]]:
    """The engines that run the stored sample, and the reasons why the others do not."""
    networks: dict[str, RunningNetwork] = {}
    refused: dict[str, str] = {}
    image = bundle.sample.input
    for engine in engines:
        try:
            network = open_network(bundle, engine)
            network.run(image)
        except ForkError:
            # This is no property of the engine, so it is not kept.
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

    They take turns of several runs, since the threads of the previous engine still spin at the beginning of a turn.

    Args:
        networks: by engine.
        image: the input, float32 with its batch axis.
        seconds: the time of all measurements; each network runs at least once in each of five rounds.
    """
    for network in networks.values():
        for _ in range(_WARM_UP):
            network.run(image)

    def turn(network: RunningNetwork) -> list[float]:
        network.run(image)
        return durations(partial(network.run, image), seconds / _ROUNDS / len(networks))

    times = interleaved({name: partial(turn, network) for name, network in networks.items()}, _ROUNDS)
    return {name: median(chain.from_iterable(turns)) * 1e3 for name, turns in times.items()}


def _place(key: str) -> Path:
    """The file of a bundle's measurements.

    Raises:
        UserError: there is no home folder for downloads.
    """
    return home() / "engines" / f"{key}.json"


def _read(key: str) -> list[Measured]:
    """Earlier measurements; none if the file is missing, damaged or of another version."""
    if key in _kept:
        return _kept[key]
    try:
        return _schema().validate_json(read_bytes(_place(key)))
    except (OSError, UserError, ValidationError):
        return []


@cache
def _schema() -> TypeAdapter[list[Measured]]:
    """The schema of the file, cached since it takes longer to make than to use."""
    return TypeAdapter(list[Measured])


def _keep(key: str, measured: Measured) -> None:
    """Add a measurement to the earlier ones, among them those that other processes made meanwhile."""
    try:
        path = _place(key)
        with locked(path.with_name(".lock"), lambda: None):
            text = json.dumps([asdict(each) for each in _with(key, measured)], indent=1) + "\n"
            with writing(path) as file:
                file.write(text.encode())
    except (OSError, QuantkitError):
        _kept[key] = _with(key, measured)


def _with(key: str, measured: Measured) -> list[Measured]:
    return [*_read(key), measured][-_MOST_KEPT:]
