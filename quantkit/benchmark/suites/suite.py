"""Suites: plans of measurements, from TOML files or options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional

from quantkit.benchmark.placement.placement import POLICIES, is_policy
from quantkit.benchmark.results.result_files import cell_file
from quantkit.benchmark.results.results import Contestant, Published, PublishedSource
from quantkit.benchmark.suites.published import Beside, beside
from quantkit.benchmark.variants import VARIANTS
from quantkit.errors import UserError
from quantkit.files import files
from quantkit.files.schema import AboveZero, first_fault
from quantkit.files.text import read_bytes, read_toml

if TYPE_CHECKING:
    from pydantic import ConfigDict

# What an untrusted suite may put into the environment.
_AFFINITY = re.compile(r"[a-z]+(=[a-z]+)?(,[a-z0-9]+(=[a-z]+)?){0,8}")

SCENARIOS = ("throughput", "latency", "server")
_METRICS = ("throughput", "latency", "speedup")


@dataclass(frozen=True)
class Recurrent:
    """A stack of recurrent layers with seeded random weights over ``steps`` time steps.

    ``mode`` is that of MXNet's operator ``RNN``; ``inputs`` and ``hidden`` are the widths of the input and the state.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    layers: Annotated[int, AboveZero]
    steps: Annotated[int, AboveZero]
    inputs: Annotated[int, AboveZero]
    hidden: Annotated[int, AboveZero]
    mode: Literal["lstm", "gru", "rnn_tanh", "rnn_relu"] = "lstm"
    bidirectional: bool = False

    @property
    def directions(self) -> int:
        """The number of directions in which the sequence is read."""
        return 2 if self.bidirectional else 1


@dataclass(frozen=True)
class Subject:
    """A network to measure: a ``model`` (name, card or bundle) or an ``rnn``.

    ``batches`` and ``scenario`` override the suite's unless empty.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    name: str
    model: Optional[str] = None
    rnn: Optional[Recurrent] = None
    batches: tuple[int, ...] = ()
    scenario: str = ""


@dataclass(frozen=True)
class Suite:
    """Networks, batch sizes and contestants; each combination is a cell.

    ``baseline`` names the contestant whose speed counts as 1; ``source`` says where published figures of the suite's
    own come from, ``sources`` those of published tables; ``budget`` is in minutes, None if unlimited. Of the batch
    sizes ``largest`` the largest at which everything fits into memory is measured, too.
    """

    name: str
    title: str
    scenario: str
    batches: tuple[int, ...]
    baseline: str
    networks: tuple[Subject, ...]
    contestants: tuple[Contestant, ...]
    published: tuple[Published, ...] = ()
    source: str = ""
    sources: tuple[PublishedSource, ...] = ()
    budget: Optional[float] = None
    largest: tuple[int, ...] = ()


def shipped_suites() -> dict[str, Path]:
    """The suites that ship with quantkit, by name."""
    return {path.stem: path for path in sorted(files.shipped("benchmarks").glob("*.toml")) if _is_suite(path)}


def find_suite(spec: str) -> Optional[Path]:
    """The file of a suite, given a path or the name of a shipped one; None if it is something else."""
    path = Path(spec)
    if path.suffix == ".toml":
        return path if _is_suite(path) else None
    return shipped_suites().get(spec)


def _is_suite(path: Path) -> bool:
    """Whether a TOML file is a suite, not a network's card, which has no contestants."""
    try:
        return b"contestant" in read_bytes(path)
    except OSError:
        return False


def read_suite(path: Path, machine: Optional[str] = None) -> Suite:
    """Read a suite's file.

    Args:
        path: the file.
        machine: of which machine the published figures are to be, see ``published.beside``.

    Raises:
        UserError: it is not TOML, not a suite, is inconsistent, or has no published figures of the machine.
    """
    from pydantic import TypeAdapter, ValidationError

    document = _toml(path)
    try:
        networks = document.pop("network", [])
        named = {"published_table": document.pop("published_table", [])}
        tables = TypeAdapter(dict[str, tuple[Beside, ...]]).validate_python(named)["published_table"]
        suite: Suite = TypeAdapter(Suite).validate_python(
            {
                "name": path.stem,
                "networks": [_subject(entry) for entry in networks] if isinstance(networks, list) else networks,
                "contestants": document.pop("contestant", []),
                "published": document.pop("published", []),
                **document,
            }
        )
    except ValidationError as error:
        where, what = first_fault(error)
        raise UserError(f"{path} is not a benchmark suite: {where}: {what}") from error
    unknown = sorted(document.keys() - {"title", "scenario", "batches", "baseline", "source", "budget", "largest"})
    if unknown:
        raise UserError(f"{path}: a suite has no setting {unknown[0]!r}")
    measured = [contestant.name for contestant in suite.contestants]
    stray = next((name for table in tables for name in table.columns if name not in measured), None)
    if stray is not None:
        raise UserError(f"{path}: a published table has a column for {stray!r}, which is no contestant")
    figures, sources = beside(tables, [network.name for network in suite.networks], machine, str(path))
    return checked(replace(suite, published=(*suite.published, *figures), sources=sources), str(path))


def _subject(entry: Any) -> Any:
    """A network's entry; without a name it gets the model's, without folders."""
    if not isinstance(entry, dict):
        return entry
    model = entry.get("model")
    return {"name": Path(model).name if isinstance(model, str) else model, **entry}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the suite {path}: {error}") from error


def checked(suite: Suite, where: str) -> Suite:
    """The suite, if it is consistent.

    Raises:
        UserError: it is not; the message has the first problem.
    """
    problem = next(_problems(suite), None)
    if problem:
        raise UserError(f"{where}: {problem}")
    return suite


def _problems(suite: Suite) -> Iterator[str]:
    names = [contestant.name for contestant in suite.contestants]
    networks = [network.name for network in suite.networks]
    for what, given in (("contestant", names), ("network", networks)):
        if not given:
            yield f"there is no {what}"
        twice = sorted({name for name in given if given.count(name) > 1})
        if twice:
            yield f"two {what}s are called {twice[0]!r}; give each a name of its own"
    stored = [cell_file(network, 1, name) for network in networks for name in names]
    if len(set(stored)) < len(stored):
        yield "two cells would have the same file; give contestants and networks names that differ in letters or digits"
    for scenario in (suite.scenario, *(network.scenario for network in suite.networks if network.scenario)):
        if scenario not in SCENARIOS:
            yield f"there is no scenario {scenario!r}; choose from {', '.join(SCENARIOS)}"
    if suite.baseline not in names:
        yield f"the baseline {suite.baseline!r} is no contestant; there are {', '.join(names)}"
    if suite.budget is not None and not suite.budget > 0:
        yield f"the budget must be a number of minutes above zero, not {suite.budget}"
    if any(size < 1 for size in suite.largest) or len(set(suite.largest)) < len(suite.largest):
        yield f"largest holds different batch sizes above zero, not {list(suite.largest)}"
    for contestant in suite.contestants:
        # Only the command line may name interpreters: an untrusted suite must not decide which program runs.
        if "=" in contestant.build:
            yield f"build {contestant.build!r} is no name; give the interpreter with --build {contestant.build}"
        if contestant.variant not in VARIANTS:
            yield f"there is no variant {contestant.variant!r}; choose from {', '.join(VARIANTS)}"
        if not is_policy(contestant.policy):
            yield f"there is no placement {contestant.policy!r}; there are {POLICIES}"
        for other in contestant.against:
            if other == contestant.name or other not in names:
                yield f"contestant {contestant.name} is against {other!r}; name another one: {', '.join(names)}"
        yield from _problems_of_settings(contestant)
    for network in suite.networks:
        batches = network.batches or suite.batches
        if not batches or min(batches) < 1 or len(set(batches)) < len(batches):
            yield f"batch sizes of {network.name} must be different whole numbers above zero, not {list(batches)}"
        if (network.model is None) == (network.rnn is None):
            yield f"network {network.name} needs either a model or an rnn"
    for figure in suite.published:
        if figure.network not in networks or figure.contestant not in names:
            yield f"a published figure is for {figure.network}, {figure.contestant}, which the suite does not measure"
        for key, value, choices in (("scenario", figure.scenario, SCENARIOS), ("metric", figure.metric, _METRICS)):
            if value not in choices:
                yield f"a published figure has the {key} {value!r}; choose from {', '.join(choices)}"


def _problems_of_settings(contestant: Contestant) -> Iterator[str]:
    settings, name = contestant.settings, contestant.name
    if settings.threads != "placed" and not contestant.policy.startswith("unpinned"):
        yield f"contestant {name} has a number of threads of its own; give it the policy unpinned"
    if settings.affinity and not _AFFINITY.fullmatch(settings.affinity):
        yield f"the affinity {settings.affinity!r} of {name} is none of Intel's, such as granularity=fine,compact,1,0"
    if settings.blocktime is not None and settings.blocktime < 0:
        yield f"the blocktime of {name} must be a number of ms, not {settings.blocktime}"
    if (settings.affinity or settings.blocktime is not None) and settings.openmp != "intel":
        yield f'affinity and blocktime of {name} are for Intel\'s runtime; give it openmp = "intel"'


def batches_of(suite: Suite, network: Subject) -> tuple[int, ...]:
    """The batch sizes at which a network is measured, ascending."""
    return tuple(sorted(network.batches or suite.batches))
