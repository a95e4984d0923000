"""``deployment.toml``: how a bundle runs best on one machine, as ``quantkit tune`` has measured it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Optional, Union

from pydantic import ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from quantkit.bundle.bundle import Bundle
from quantkit.deployment.instances import Instances
from quantkit.deployment.network import known_engine
from quantkit.deployment.runtime import Runtime
from quantkit.deployment.streams import Streams
from quantkit.errors import UserError
from quantkit.files.schema import FirstFaultOnly, first_fault
from quantkit.files.text import read_toml
from quantkit.files.toml import Value, toml_text
from quantkit.host.cpu import read_cpu
from quantkit.host.limits import read_limits
from quantkit.host.machine import describe
from quantkit.host.preloaded import Allocator, OpenMP
from quantkit.host.threads import MOST_DECODERS
from quantkit.host.topology import read_topology

DEPLOYMENT = "deployment.toml"
"""Its usual name."""

_REMEDY = "write one with quantkit tune --retune"

LONGEST = 200
"""Characters of a text."""

_Text = Annotated[str, Field(max_length=LONGEST)]
_Count = Annotated[int, Field(ge=1, le=1 << 20)]
_Batch = Annotated[int, Field(ge=1, le=4096)]
_Figures = Annotated[dict[_Text, Union[_Text, FiniteFloat, int, Annotated[list[FiniteFloat], Field(max_length=3)]]],
                     FirstFaultOnly()]  # fmt: skip

_STRICT = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True)
class TunedHost:
    """The machine that a deployment was measured on: ``id`` is that of ``machine.describe``, ``cpu`` its processor.

    ``usable_cores`` are those that the process might use, ``cpu_quota`` the processor time of its control group in
    cores; None if unlimited or unknown.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    id: _Text
    cpu: _Text
    usable_cores: _Count
    cpu_quota: Optional[FiniteFloat] = None


@dataclass(frozen=True)
class TunedBundle:
    """The bundle that a deployment is of: its name and kind, and the hash of its manifest."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: _Text
    kind: Literal["int8", "fp32"]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class Deployment:
    """How a bundle runs on a machine.

    Attributes:
        bundle: which one.
        host: on which machine.
        engine: the engine's name.
        engine_version: its version when this was measured.
        spread: the processes that run the network, or the streams of the one that loads it; None: that one, once at a
            time.
        workers: the threads that read image files; None: as many as usual.
        goal: what was asked for, as names and values.
        evidence: what was measured, likewise; lists are a ratio and its interval.
    """

    bundle: TunedBundle
    host: TunedHost
    engine: str
    engine_version: str
    spread: Union[Instances, Streams, None]
    workers: Optional[int] = None
    goal: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def check(self, bundle: Bundle, where: Path) -> None:
        """Check that this is of a bundle, and of this machine.

        Raises:
            UserError: it is not; the message names ``where`` it was read, and what differs.
        """
        again = "tune it again: quantkit tune BUNDLE --retune"
        if bundle.sha256 != self.bundle.sha256:
            raise UserError(
                f"{where} is of another bundle, called {self.bundle.name!r}, than {bundle.directory}; give its own, or "
                f"{again}"
            )
        here = this_host()
        differing = [
            f"{what} {there} instead of {found}"
            for what, there, found in (
                ("the processor", self.host.cpu, here.cpu),
                ("usable cores", self.host.usable_cores, here.usable_cores),
                ("a quota of cores", self.host.cpu_quota, here.cpu_quota),
                ("the machine", self.host.id, here.id),
            )
            if there != found
        ]
        if differing:
            raise UserError(f"{where} was measured on another host ({differing[0]} here); {again}")


@dataclass(frozen=True)
class _Instances:
    """``Instances`` in the file."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    placement: Annotated[str, Field(pattern=r"^[a-z0-9:]{1,40}$")]
    batch: _Batch
    window: Annotated[FiniteFloat, Field(ge=0, le=1e6)] = 0.0


@dataclass(frozen=True)
class _Streams:
    """``Streams`` in the file."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    number: _Count
    threads: _Count = 1
    batch: _Batch = 8
    window: Annotated[FiniteFloat, Field(ge=0, le=1e6)] = 0.0


@dataclass(frozen=True)
class _Runtime:
    """``Runtime`` in the file."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    openmp: OpenMP = "gnu"
    blocktime: Optional[Annotated[int, Field(ge=0, le=1 << 20)]] = None
    allocator: Allocator = "system"
    huge_pages: bool = False


@dataclass(frozen=True)
class _File:
    """The schema."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    format: Literal["quantkit-deployment"]
    version: Literal[1]
    engine: _Text
    engine_version: _Text
    bundle: TunedBundle
    host: TunedHost
    workers: Optional[Annotated[int, Field(ge=1, le=MOST_DECODERS)]] = None
    instances: Optional[_Instances] = None
    streams: Optional[_Streams] = None
    runtime: _Runtime = _Runtime()
    goal: _Figures = field(default_factory=dict)
    evidence: _Figures = field(default_factory=dict)


def this_host() -> TunedHost:
    """The machine that this process runs on, and what it may use of it."""
    limits = read_limits()
    facts = describe(read_cpu(), limits, read_topology())
    quota = None if limits.unreadable else limits.cpu_quota
    return TunedHost(facts["id"], facts["cpu"], facts["usable_cores"], quota)


def deployment_text(deployment: Deployment) -> str:
    """The content of a deployment's file."""
    entries: dict[str, Value] = {
        "format": "quantkit-deployment",
        "version": 1,
        "engine": deployment.engine,
        "engine_version": deployment.engine_version,
        **({} if deployment.workers is None else {"workers": deployment.workers}),
    }
    tables = {"bundle": asdict(deployment.bundle), "host": asdict(deployment.host)}
    spread = deployment.spread
    if isinstance(spread, Streams):
        tables["streams"] = {**asdict(spread), "number": spread.count, "window": float(spread.window)}
    elif spread is not None:
        tables["instances"] = {"placement": spread.policy, "batch": spread.batch, "window": float(spread.window)}
        tables["runtime"] = asdict(spread.runtime)
    tables |= {"goal": dict(deployment.goal), "evidence": dict(deployment.evidence)}
    return toml_text(entries, {name: _told(table) for name, table in tables.items()})


def _told(table: Mapping[str, Any]) -> dict[str, Any]:
    """What TOML can say, which has no null."""
    return {name: value for name, value in table.items() if value is not None}


def read_deployment(path: Path) -> Deployment:
    """Read a deployment's file.

    Raises:
        UserError: it cannot be read, or is none.
    """
    try:
        text = json.dumps(read_toml(path))
    except OSError as error:
        raise UserError(f"cannot read the deployment {path}: {error.strerror or error}; {_REMEDY}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{path} is no TOML of texts, numbers and tables ({error}); {_REMEDY}") from error
    try:
        found = _schema().validate_json(text)
        if found.instances is not None and found.streams is not None:
            raise UserError("it has both instances and streams")
        runtime = Runtime(**asdict(found.runtime))
        instances = None if found.instances is None else Instances(**asdict(found.instances), runtime=runtime)
        streams = None if found.streams is None else Streams(**asdict(found.streams))
        engine = known_engine(found.engine)
    except ValidationError as error:
        place, what = first_fault(error)
        raise UserError(f"{path} is no deployment: {place}: {what}; {_REMEDY}") from error
    except UserError as error:
        raise UserError(f"{path} is no deployment that can be used: {error}") from error
    return Deployment(
        found.bundle,
        found.host,
        engine,
        found.engine_version,
        instances or streams,
        found.workers,
        found.goal,
        found.evidence,
    )


@cache
def _schema() -> TypeAdapter[_File]:
    """It takes longer to make than to use."""
    return TypeAdapter(_File)
