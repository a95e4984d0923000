"""What takes part in tuning: deployments of a bundle, and what engines do by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Optional, Union

from quantkit.backends.mxnet.subprocesses import environment
from quantkit.backends.registry import DEPLOYED
from quantkit.bundle.bundle import Bundle
from quantkit.deployment.child_messages import LOADING_PATIENCE
from quantkit.deployment.child_process import ChildProcess
from quantkit.deployment.instances import Instances
from quantkit.deployment.streams import Streams
from quantkit.deployment.tuning import contestant_process
from quantkit.deployment.tuning.point import FILES, Load, Point
from quantkit.errors import InstanceError
from quantkit.host.children import descendants
from quantkit.host.memory import memory_of

OwnMode = Literal["default", "LATENCY", "THROUGHPUT"]
"""How an engine runs by itself: its default session, or OpenVINO's hints."""

# Seconds that a measurement may take beyond ten times what was asked for.
_PATIENCE = 120.0


@dataclass(frozen=True, eq=False)
class Contestant:
    """A way to run a bundle.

    Attributes:
        bundle: the bundle.
        engine: the engine's name.
        spread: the processes that run the network, or the streams of the one that loads it; None: that one, once at a
            time.
        own: run it as the engine does by itself, without quantkit; None: as quantkit does.
        label: the bundle's name where there are several.
        images: a file or a folder of files, to ``decode``; None: it does not.
    """

    bundle: Bundle
    engine: str
    spread: Union[Instances, Streams, None] = None
    own: Optional[OwnMode] = None
    label: str = ""
    images: Optional[Path] = None

    @property
    def key(self) -> str:
        """What tells it from all others, for the same machine and versions."""
        return repr((self.bundle.sha256, self.engine, self.spread, self.own))

    @property
    def name(self) -> str:
        """What it is called in tables."""
        title = f"{self.label}: {DEPLOYED[self.engine].title}" if self.label else DEPLOYED[self.engine].title
        if self.own is not None:
            hint = "its default session" if self.own == "default" else f"its {self.own} hint"
            return f"{title} by itself, {hint}"
        return f"{title}, {'in one process' if self.spread is None else _told(self.spread)}"


def _told(spread: Union[Instances, Streams]) -> str:
    form = f"batch {spread.batch}"
    if spread.window:
        form += f", window {1e3 * spread.window:g} ms"
    if isinstance(spread, Streams):
        threads = f" of {spread.threads} threads" if spread.threads > 1 else ""
        return f"{spread.count} streams{threads}, {form}"
    runtime = spread.runtime
    extra = [
        *([f"{runtime.openmp} OpenMP"] if runtime.openmp != "gnu" else []),
        *([f"blocktime {runtime.blocktime}"] if runtime.blocktime is not None else []),
        *([runtime.allocator] if runtime.allocator != "system" else []),
        *(["huge pages"] if runtime.huge_pages else []),
    ]
    return ", ".join([f"instances {spread.policy}", form, *extra])


class Running:
    """A contestant's process, and those that it has started; use it as a context manager."""

    def __init__(self, contestant: Contestant) -> None:
        """Start it; it has loaded the network when this returns.

        Raises:
            QuantkitError: the network cannot run so.
            InstanceError: the process cannot be started, ended, or hangs.
        """
        self.contestant = contestant
        try:
            self._process = ChildProcess(
                contestant.name,
                contestant_process.__name__,
                _settings(contestant),
                environment(**_variables(contestant)),
                quiet=True,
            )
        except OSError as error:
            raise InstanceError("start", f"a process cannot be started: {error.strerror or error}") from error
        try:
            # How many requests it serves at a time.
            self.parallel = int(self._process.answer(LOADING_PATIENCE)["parallel"])
        except BaseException:
            self.close()
            raise

    def measure(self, load: Load, seconds: float) -> Point:
        """Run it under a load for about so many seconds.

        Raises:
            QuantkitError: a request fails.
            InstanceError: the process ended, or hangs.
        """
        self._process.send({**asdict(load), "seconds": seconds})
        found = self._process.answer(_PATIENCE + 10 * seconds)
        return Point(load, **found)

    def decode(self, workers: int, seconds: float) -> Point:
        """Have it read its image files again and again, with so many threads, for about so many seconds.

        Raises:
            QuantkitError: a file cannot be decoded, or does not fit.
            InstanceError: the process ended, or hangs.
        """
        self._process.send({"workers": workers, "seconds": seconds})
        return Point(FILES, **self._process.answer(_PATIENCE + 10 * seconds))

    def memory(self) -> int:
        """The bytes that it has in memory, in all of its processes."""
        pid = self._process.pid
        return memory_of((pid, *descendants(pid)))

    def close(self) -> None:
        """End it."""
        self._process.close()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Restarting:
    """A contestant that runs, and is started again if its process is lost; use it as a context manager."""

    def __init__(self, contestant: Contestant) -> None:
        """Start it; see ``Running``."""
        self.contestant = contestant
        self._running = Running(contestant)
        self.parallel = self._running.parallel

    def measure(self, load: Load, seconds: float) -> Point:
        """See ``Running``.

        Raises:
            QuantkitError: a request fails.
            InstanceError: the process ended or hangs, twice.
        """
        try:
            return self._running.measure(load, seconds)
        except InstanceError:
            self._running.close()
            self._running = Running(self.contestant)
            return self._running.measure(load, seconds)

    def memory(self) -> int:
        """See ``Running``."""
        return self._running.memory()

    def __enter__(self) -> Restarting:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()


def _settings(contestant: Contestant) -> Mapping[str, Any]:
    bundle, spread = contestant.bundle, contestant.spread
    return {
        "bundle": str(Path(bundle.directory).absolute()),
        "sha256": bundle.sha256,
        "engine": contestant.engine,
        "instances": asdict(spread) if isinstance(spread, Instances) else None,
        "streams": asdict(spread) if isinstance(spread, Streams) else None,
        "own": contestant.own,
        "images": None if contestant.images is None else str(contestant.images),
    }


def _variables(contestant: Contestant) -> dict[str, str]:
    """MXNet by itself copies with several threads, which quantkit turns off; this is its default."""
    return {} if contestant.own is None else {"MXNET_CPU_PARALLEL_SIZE": "200000"}
