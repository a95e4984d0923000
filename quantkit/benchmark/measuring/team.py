"""All instances of one contestant on one network, which are started, bound, proven and measured together."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

from quantkit.backends.registry import MXNET
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.placement.proof import Proof, problem, prove
from quantkit.benchmark.results.results import Kernels, Round, Ticks, WarmUp
from quantkit.benchmark.workers.instance import WORKER, Instance
from quantkit.errors import InstanceError
from quantkit.host.core_to_core import core_to_core
from quantkit.host.load import Load, load_between, read_ticks
from quantkit.host.topology import with_siblings

_STAT = Path("/proc/stat")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

# From the command until all instances begin: enough for it to reach each of them.
_LEAD = 0.03
_LEAD_EACH = 0.002

# The part of an instance's time that must be common to all, and how often a round is tried.
_COMMON = 0.5
_ATTEMPTS = 5


@dataclass(frozen=True)
class Launch:
    """How one instance is started (see ``Instance``), and its intended placement."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    placement: Placement
    cpus: Optional[tuple[int, ...]] = None
    nodes: Optional[tuple[int, ...]] = None
    worker: Path = WORKER
    engine: str = MXNET.name


class Team:
    """Instances that work at the same time; use it as a context manager.

    The failure of one raises an InstanceError with its number as ``instance``.
    """

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = tuple(launches)
        self._cpus = _hardware_threads(launches[0])
        pinned = {cpu for launch in launches for cpu in _hardware_threads(launch)}
        # Work on a core's other hardware thread slows down this one.
        self._watched = with_siblings(pinned)
        self.instances: list[Instance] = []
        with ExitStack() as stack:
            for number, launch in enumerate(launches):
                with _numbered(number):
                    instance = _started(launch)
                self.instances.append(stack.enter_context(instance))
            self._stack = stack.pop_all()

    def load(self, files: Mapping[str, Path], patience: float) -> dict[str, Any]:
        """Have all instances read a network's files, by role; returns the engine's description of itself."""
        answers = self._ask("load", patience, files={role: str(path) for role, path in files.items()})
        return {name: value for name, value in answers[0].items() if name != "event"}

    def bind(self, input_name: str, data: Path, patience: float) -> None:
        """Bind the network to the input in an .npy file."""
        self._ask("bind", patience, input=input_name, data=str(data))

    def resident(self) -> int:
        """The bytes of memory that the instances hold; memory that they share counts for each."""
        pages = 0
        for instance in self.instances:
            # One that has ended holds nothing.
            with suppress(OSError, IndexError):
                pages += int(Path(f"/proc/{instance.pid}/statm").read_text().split()[1])
        return pages * _PAGE

    def warm(self, seconds: float, least: int, patience: float) -> tuple[WarmUp, ...]:
        """Run until steady, all at once: at least ``least`` times, beginning none after ``seconds``."""
        answers = self._ask("warm", patience, limit=int(seconds * 1e9), least=least)
        return tuple(
            WarmUp(tuple(end - start for start, end in zip(each["starts"], each["ends"])), each["steady"])
            for each in answers
        )

    def prove(self) -> tuple[Proof, ...]:
        """The actual placement of the instances.

        Raises:
            InstanceError: one runs in the wrong place.
        """
        proofs = []
        for number, (instance, launch) in enumerate(zip(self.instances, self._launches)):
            proof = prove(instance.pid, launch.placement)
            wrong = problem(proof, launch.placement, openmp=launch.engine == MXNET.name)
            if wrong:
                with _numbered(number):
                    raise InstanceError("placement", f"process {instance.pid}: {wrong}", instance.last_lines())
            proofs.append(proof)
        return tuple(proofs)

    def kernels(self, patience: float) -> Optional[Kernels]:
        """How many convolutions, dense and recurrent layers run in INT8; None if the engine does not tell."""
        with _numbered(0):
            answer = self.instances[0].ask("kernels", patience)
        return Kernels(answer["int8"], answer["of"]) if "int8" in answer else None

    def outputs(self, folder: Path, patience: float) -> list[Path]:
        """Have each instance write the outputs of its last run into an .npz file of the folder."""
        paths = [folder / f"{instance.pid}.npz" for instance in self.instances]
        for number, (instance, path) in enumerate(zip(self.instances, paths)):
            with _numbered(number):
                instance.ask("outputs", patience, path=str(path))
        return paths

    def measure(self, seconds: float, patience: float) -> Round:
        """One round: all instances begin at the same time and begin no request after ``seconds``.

        A round in which they hardly worked at the same time is meaningless and is repeated, for twice as long.

        Raises:
            InstanceError: one failed, or in every attempt their common time was too short.
        """
        for attempt in range(_ATTEMPTS):
            turn = self._round(seconds * 2**attempt, patience)
            low, high = turn.window
            if high - low >= _COMMON * min(ticks.ends[-1] - ticks.starts[0] for ticks in turn.instances):
                return turn
        begun = [ticks.starts[0] for ticks in turn.instances]
        last = begun.index(max(begun))
        with _numbered(last):
            raise InstanceError(
                "late",
                f"process {self.instances[last].pid} began {(begun[last] - min(begun)) / 1e9:.2g} s after another, and "
                f"all worked at the same time for {max(0, high - low) / 1e9:.2g} s alone, {_ATTEMPTS} times over; "
                "other programs keep their cores busy",
            )

    def _round(self, seconds: float, patience: float) -> Round:
        apart = core_to_core(self._cpus[0], self._cpus[-1]) if len(self._cpus) > 1 else None
        at, others = time.time(), self.watch()
        begun = time.monotonic_ns()
        start = begun + int((_LEAD + _LEAD_EACH * len(self.instances)) * 1e9)
        answers = self._ask("measure", patience, start=start, stop=start + int(seconds * 1e9), least=1)
        load = others()
        return Round(
            at=at,
            # Ticks are coarse: a value may be negative, and only the mean of many rounds is meaningful.
            busy=None if load is None else load.busy,
            stolen=None if load is None else load.stolen,
            instances=tuple(
                Ticks(
                    tuple(tick - start for tick in answer["starts"]),
                    tuple(tick - start for tick in answer["ends"]),
                )
                for answer in answers
            ),
            core_to_core=apart,
        )

    def watch(self) -> Callable[[], Optional[Load]]:
        """Begin to watch the instances' cores; the function that it returns gives the load of others there since then.

        It returns None if the system does not show the load. Stolen time is separate. The work of this process, and of
        LoadGen, for which it has waited, counts as ours.
        """
        begun, before, own = time.monotonic(), read_ticks(_STAT), self._processor_seconds()

        def others() -> Optional[Load]:
            elapsed = time.monotonic() - begun
            load = load_between(before, read_ticks(_STAT), self._watched, elapsed)
            if load is None:
                return None
            used = self._processor_seconds() - own
            return Load(load.busy - load.stolen - used / elapsed, load.stolen, elapsed)

        return others

    def servers(self, patience: float) -> list[Callable[[], None]]:
        """For each instance a function that has it serve one request; they may be called from several threads."""
        return [partial(self._serve, number, patience) for number in range(len(self.instances))]

    def _serve(self, number: int, patience: float) -> None:
        with _numbered(number):
            self.instances[number].ask("run", patience)

    def _processor_seconds(self) -> float:
        """The processor time that the instances, this process and those that it has waited for have used so far."""
        total = 0
        for instance in self.instances:
            fields = Path(f"/proc/{instance.pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / _TICKS_PER_SECOND + sum(os.times()[:4])

    def _ask(self, command: str, patience: float, **arguments: Any) -> list[dict[str, Any]]:
        for number, instance in enumerate(self.instances):
            with _numbered(number):
                instance.tell(command, **arguments)
        answers = []
        for number, instance in enumerate(self.instances):
            with _numbered(number):
                answers.append(instance.answer(command, patience))
        return answers

    def close(self) -> None:
        """End all instances at once."""
        self._stack.close()

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _hardware_threads(launch: Launch) -> tuple[int, ...]:
    """Those that an instance may use."""
    return launch.placement.cpus or tuple(sorted(os.sched_getaffinity(0)))


def _started(launch: Launch) -> Instance:
    threads = launch.placement.threads
    return Instance(
        launch.command, launch.environment, launch.cpus, launch.nodes, launch.worker, launch.engine, threads
    )


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """Give the errors of an instance its number."""
    try:
        yield
    except InstanceError as error:
        error.instance = number
        raise
