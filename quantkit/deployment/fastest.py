"""The fastest engine for a bundle on this machine: measured once, and remembered under QUANTKIT_HOME."""

from __future__ import annotations

import hashlib
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
from quantkit.bundle.manifest import manifest_text
from quantkit.bundle.read import Bundle
from quantkit.deployment.network import RunningNetwork, default_engine, open_network, usable_engines
from quantkit.errors import EngineError, EngineMissing, ForkError, QuantkitError, UserError
from quantkit.files.files import home, writing
from quantkit.files.text import read_bytes
from quantkit.host.cpu import read_cpu
from quantkit.host.timing import durations, interleaved

_SECONDS = 1.5
_ROUNDS = 5
_WARM_UP = 3

# Of one bundle, on as many machines that share a home, or with as many versions of engines.
_MOST_KEPT = 32


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


# What could not be written, by the bundle's hash.
_kept: dict[str, list[Measured]] = {}


def open_fastest(bundle: Bundle) -> RunningNetwork:
    """Load a bundle's network in the engine that runs one image of it fastest here, of those that are installed.

    The stored sample is run, a batch of one, for 1.5 seconds in all; the engines take turns of a tenth of a second,
    whose first run does not count, and the medians are compared. What was found is kept under QUANTKIT_HOME
    in ``engines``, for the same bundle, processor, number of threads and versions; where that cannot be written, for
    the rest of the process. An engine that refuses the network is left out, with an ``EngineSkippedWarning``.

    Raises:
        EngineMissing: no engine is installed that can run the bundle.
        EngineError: no engine that is installed can run the network.
    """
    versions = usable_engines(bundle)
    if len(versions) < 2:
        return open_network(bundle, next(iter(versions), None) or default_engine(bundle))
    cpu, threads = read_cpu().model, session_threads()
    key = _key(bundle)
    known = _read(key)
    for each in known:
        same_place = (each.cpu, each.threads, each.versions) == (cpu, threads, versions)
        if same_place and each.is_complete:
            return open_network(bundle, each.fastest)
    networks, refused = _running(bundle, tuple(versions))
    milliseconds = median_milliseconds(networks, bundle.sample.input, _SECONDS)
    found = Measured(cpu, threads, versions, milliseconds, tuple(refused))
    _write(key, [*known, found][-_MOST_KEPT:])
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

    def turn(network: RunningNetwork) -> list[float]:
        network.run(image)
        return durations(partial(network.run, image), seconds / _ROUNDS / len(networks))

    found = interleaved({name: partial(turn, network) for name, network in networks.items()}, _ROUNDS)
    return {name: median(chain.from_iterable(turns)) * 1e3 for name, turns in found.items()}


def _key(bundle: Bundle) -> str:
    """The bundle's hash: that of its manifest, which holds those of its files."""
    return hashlib.sha256(manifest_text(bundle.manifest).encode()).hexdigest()


def _place(key: str) -> Path:
    """The file of one bundle's measurements.

    Raises:
        UserError: there is no place for downloads.
    """
    return home() / "engines" / f"{key}.json"


def _read(key: str) -> list[Measured]:
    """What was measured before; a file that is missing, damaged or of another version says nothing."""
    if key in _kept:
        return _kept[key]
    try:
        return _schema().validate_json(read_bytes(_place(key)))
    except (OSError, UserError, ValidationError):
        return []


@cache
def _schema() -> TypeAdapter[list[Measured]]:
    """It takes longer to make than to use."""
    return TypeAdapter(list[Measured])


def _write(key: str, measured: list[Measured]) -> None:
    text = json.dumps([asdict(each) for each in measured], indent=1) + "\n"
    try:
        path = _place(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with writing(path) as file:
            file.write(text.encode())
    except (OSError, QuantkitError):
        _kept[key] = measured
