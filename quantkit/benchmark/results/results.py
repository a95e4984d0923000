"""The results of a benchmark: raw clock readings of every cell, with all that is needed to judge them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional

from quantkit.benchmark.build import Build
from quantkit.benchmark.placement.placement import Placement
from quantkit.benchmark.placement.proof import Proof
from quantkit.files.schema import FiniteAboveZero, Many
from quantkit.host.revision import Revision

if TYPE_CHECKING:
    from pydantic import ConfigDict

FORMAT = 1

# A line of LoadGen's summary.
_UNMET = re.compile(r"(.+?) satisfied ?: NO$")

DISCARDED = "discarded"
"""The state of a run that is being removed."""


@dataclass(frozen=True)
class Settings:
    """How a contestant's threads are set, where this differs from the other contestants of MXNet.

    Attributes:
        openmp: the runtime, ``gnu`` or ``intel``; empty for that of the run.
        threads: OMP_NUM_THREADS: ``placed``, as many as the placement has; ``all`` or ``half`` of the usable hardware
            threads; ``one``; ``unset``, which leaves the number to MXNet.
        affinity: KMP_AFFINITY, such as ``granularity=fine,compact,1,0``; empty for the placement's.
        blocktime: KMP_BLOCKTIME in ms; None for 1.
        copies: whether one thread copies all arrays, or ``parallel``, as is MXNet's default, several copy arrays of
            more than 200,000 elements.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    openmp: Literal["", "gnu", "intel"] = ""
    threads: Literal["placed", "all", "half", "one", "unset"] = "placed"
    affinity: str = ""
    blocktime: Optional[int] = None
    copies: Literal["single", "parallel"] = "single"


DEFAULT_SETTINGS = Settings()


@dataclass(frozen=True)
class Contestant:
    """One competitor: ``variant`` of the networks, such as ``fp32`` or ``int8``, on ``build``, placed by ``policy``.

    ``name`` is its name in tables, unique in its run; ``against`` names others that it is compared with besides the
    baseline.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    name: str
    build: str
    variant: str
    policy: str
    settings: Settings = DEFAULT_SETTINGS
    against: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ticks:
    """The start and the end of each request of one instance, in ns after the round's common start."""

    starts: Many[int]
    ends: Many[int]


@dataclass(frozen=True)
class Round:
    """One turn of a contestant, all its instances at once.

    ``at`` is the wall-clock time in seconds since 1970; ``busy`` and ``stolen`` are the cores that other processes
    used and that the hypervisor took meanwhile, on the instances' cores, None if the system does not show them;
    ticks are coarse, so a single round's value may be negative. ``core_to_core`` is the latency in ns between the first
    and the last hardware thread of an instance just before, there and back; None if it has one, or was not measured.
    """

    at: float
    busy: Optional[float]
    stolen: Optional[float]
    instances: Many[Ticks]
    core_to_core: Optional[float] = None

    @property
    def window(self) -> tuple[int, int]:
        """The common window in ns: from the start of the last instance to the end of the first."""
        return max(ticks.starts[0] for ticks in self.instances), min(ticks.ends[-1] for ticks in self.instances)


@dataclass(frozen=True)
class WarmUp:
    """The warm-up runs of one instance: their durations in ns, and whether it became steady."""

    durations: Many[int]
    steady: bool


@dataclass(frozen=True)
class Kernels:
    """The number of convolutions, dense and recurrent layers that ran in INT8 (``int8``), and of all (``of``)."""

    int8: int
    of: int


@dataclass(frozen=True)
class Agreement:
    """The largest deviation of a contestant's outputs from the reference's, over the reference's largest value.

    ``allowed`` is None if there is no limit, as for the networks of other quantizers.
    """

    reference: str
    deviation: float
    allowed: Optional[float]


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result: the instance (None: all), the message, and its last lines on standard error.

    ``kind`` is one of: start, killed, crashed, hung, late, protocol, output, placement, kernels, loadgen,
    disk.
    """

    kind: str
    instance: Optional[int]
    message: str
    stderr: Many[str] = ()

    @property
    def reason(self) -> str:
        """The message without the engine's stack trace."""
        return self.message.partition("Stack trace:")[0].strip()


@dataclass(frozen=True)
class ServerTrial:
    """One run of the server scenario at a rate of requests per second; latencies in ms.

    ``valid`` is LoadGen's verdict, ``why`` its reasons if the run is not valid.
    """

    rate: float
    completed: int
    p50: float
    p90: float
    p99: float
    valid: bool
    why: Many[str]

    @property
    def unmet(self) -> tuple[str, ...]:
        """The conditions that LoadGen's reasons name as not met, such as ``early stopping``."""
        return tuple(match[1].lower() for line in self.why if (match := _UNMET.match(line)))


@dataclass(frozen=True)
class Server:
    """The search for the highest rate whose p99 stays within ``bound`` ms; ``rate`` is 0.0 if none does."""

    bound: float
    rate: float
    trials: Many[ServerTrial]

    @property
    def confirmed(self) -> Optional[ServerTrial]:
        """The last run at ``rate``, which confirmed it; None if no rate holds."""
        return next((trial for trial in reversed(self.trials) if 0 < trial.rate == self.rate), None)


@dataclass(frozen=True)
class Cell:
    """The smallest unit of measurement: one contestant on one network at one batch size.

    ``checkpoint`` maps the files that were run (``symbol`` and ``params``, ``onnx``, or ``xml`` and ``bin``) to their
    SHA-256; ``engine`` is the worker's description of itself (versions, loaded threading runtimes and allocators,
    settings); ``environment`` has the variables set for it; ``input`` is the SHA-256 of its input file. ``kernels`` is
    None if the engine does not report them.
    """

    network: str
    batch: int
    scenario: str
    contestant: Contestant
    placements: Many[Placement]
    environment: Mapping[str, str]
    checkpoint: Mapping[str, str]
    input: str = ""
    engine: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    proofs: Many[Proof] = ()
    kernels: Optional[Kernels] = None
    warm_up: Many[WarmUp] = ()
    rounds: Many[Round] = ()
    agreement: Optional[Agreement] = None
    server: Optional[Server] = None
    warnings: Many[str] = ()
    failure: Optional[Failure] = None


@dataclass(frozen=True)
class Network:
    """A network of the run. ``macs`` are multiply-accumulates for one item; ``item`` is the noun for a batch's items.

    ``weights`` is ``trained`` or ``random``; ``accuracy`` maps figures that its bundle holds (``agreement``,
    ``cosine``, ``top1`` and the like, as shares from 0 to 1) to their values.
    """

    name: str
    weights: str
    macs: int
    item: str = "image"
    accuracy: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """A published figure: ``metric`` is throughput (items/s), latency (ms) or speedup (ratio to native).

    ``scenario`` is the scenario of ours that it belongs to; ``table`` names the published table, empty for a figure of
    the suite's own. One that is ``nearest`` stands beside the measured batch size that is nearest to ``batch``, by
    their ratio: reports then give it that ``batch``, and its own as ``own_batch``, 0 where they are the same.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    network: str
    batch: int
    contestant: str
    scenario: str
    metric: str
    value: Annotated[float, FiniteAboveZero]
    table: str = ""
    nearest: bool = False
    own_batch: int = 0


@dataclass(frozen=True)
class Machine:
    """A machine that others measured on.

    ``cores`` are physical ones, ``isa`` is their instruction set (``AVX2``, ``AVX512``, ``AVX512-VNNI``); ``gpu`` says
    that it is a GPU of that name instead.
    """

    name: str
    cores: int = 0
    isa: str = ""
    gpu: bool = False


@dataclass(frozen=True)
class PublishedSource:
    """The table that published figures are from, where it was published, and the machine."""

    table: str
    source: str
    machine: Machine


@dataclass(frozen=True)
class LeftOut:
    """A cell that was not measured, and why."""

    network: str
    batch: int
    contestant: str
    reason: str


@dataclass(frozen=True)
class Run:
    """The plan and the conditions of a run. ``host`` holds the machine's facts, ``host["id"]`` its identity.

    ``baseline`` names the contestant that all speed-ups refer to; ``source`` says where the suite's own published
    figures come from, ``sources`` those of published tables; ``state`` is ``running``, ``interrupted``, ``failed``,
    ``finished`` or ``discarded``; ``minutes`` is the time it took; ``revision`` is quantkit's, None in results of
    version 0.1.
    """

    name: str
    title: str
    scenario: str
    quantkit: str
    command: str
    created: str
    host: Mapping[str, Any]
    builds: Many[Build]
    networks: Many[Network]
    batches: Many[int]
    contestants: Many[Contestant]
    baseline: str
    seed: int
    budget: Optional[float] = None
    published: Many[Published] = ()
    source: str = ""
    sources: Many[PublishedSource] = ()
    left_out: Many[LeftOut] = ()
    warnings: Many[str] = ()
    state: str = "running"
    minutes: float = 0.0
    revision: Optional[Revision] = None
    format: int = FORMAT


@dataclass(frozen=True)
class Results:
    """A run and its cells that were measured or failed."""

    run: Run
    cells: Many[Cell]
