"""The deployments that tuning tries: engines and placements first, then the settings of the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from quantkit.backends.base import session_threads
from quantkit.backends.registry import DEPLOYED, DEPLOYED_ONNX, MXNET, ONNXRUNTIME, OPENVINO
from quantkit.benchmark.placement.placement import place
from quantkit.bundle.bundle import Bundle
from quantkit.deployment.instances import Instances
from quantkit.deployment.network import default_engine, usable_engines
from quantkit.deployment.runtime import Runtime
from quantkit.deployment.streams import Streams
from quantkit.deployment.tuning.contestant import Contestant, OwnMode
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import Load
from quantkit.errors import UserError
from quantkit.host.topology import Topology, read_topology

# The most images that are computed at once at first, where only throughput counts, and where single images wait.
_LARGE, _SMALL = 8, 4

# The sizes of requests, where only throughput counts.
_BATCHES = (1, 8, 32)

# Callers at most for each request that is served at a time, where the latency under load is bounded.
_MOST_CALLERS = 16

# Waiting for a full batch is tried for this share of the bound on the latency.
_WINDOW = 0.1

# Of a bundle's name in those of contestants.
_LONGEST_LABEL = 60

_BLOCKTIMES = (0, 1, 200)
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def default(bundles: Sequence[Bundle]) -> Contestant:
    """What ``load`` gives of the first bundle without any choice."""
    return Contestant(bundles[0], default_engine(bundles[0]), label=_label(bundles[0], bundles))


def _label(bundle: Bundle, bundles: Sequence[Bundle]) -> str:
    """The name of a bundle's folder, with its number where another one has the same name; empty if it is alone."""
    if len(bundles) == 1:
        return ""
    names = [each.directory.resolve().name[:_LONGEST_LABEL] for each in bundles]
    place = next(place for place, each in enumerate(bundles) if each.directory == bundle.directory)
    return names[place] if names.count(names[place]) == 1 else f"{names[place]} ({place + 1})"


def structures(bundles: Sequence[Bundle], goal: TuningGoal) -> Iterator[Contestant]:
    """Every bundle in every engine: in one process, in streams of it, and in instances of all sizes.

    Bundles and engines alternate, so that a search that runs out of time has tried each of them.
    """
    policies = placements(read_topology())
    rows = [
        _forms(Contestant(bundle, engine, label=_label(bundle, bundles)), policies, goal)
        for bundle in bundles
        for engine in usable_engines(bundle)
    ]
    for column in zip_longest(*rows):
        yield from (contestant for contestant in column if contestant is not None)


def _forms(single: Contestant, policies: Sequence[str], goal: TuningGoal) -> Iterator[Contestant]:
    yield single
    for batch in reversed(_batches(goal)):
        if DEPLOYED[single.engine].backend().has_streams:
            yield from (replace(single, spread=each) for each in _streams(batch))
        yield from (replace(single, spread=Instances(policy, batch=batch)) for policy in policies)


def own(best: Contestant) -> Iterator[Contestant]:
    """What the engines do by themselves with the bundle of a contestant."""
    modes: dict[str, tuple[OwnMode, ...]] = {
        MXNET.name: ("default",),
        ONNXRUNTIME.name: ("default",),
        OPENVINO.name: ("default", "LATENCY", "THROUGHPUT"),
    }
    for engine in usable_engines(best.bundle):
        yield from (Contestant(best.bundle, engine, own=mode, label=best.label) for mode in modes[engine])


def placements(topology: Topology) -> list[str]:
    """Policies that differ on a machine, from an instance on each core to one on all of them."""
    cores = len(place("core", topology))
    counted = [f"{cores // size}x{size}" for size in _powers(cores)]
    smt = any(len(core.usable) > 1 for core in topology.cores)
    policies = ["core", *counted, "node", "machine", *(["core:smt", "machine:smt"] if smt else [])]
    distinct: dict[object, str] = {}
    for policy in policies:
        try:
            distinct.setdefault(place(policy, topology), policy)
        except UserError:  # several nodes may leave no room for as many of a size
            continue
    return list(distinct.values())


def _streams(batch: int) -> Iterator[Streams]:
    """Several streams, of one thread and of more."""
    cores = session_threads()
    for threads in (1, *_powers(cores)):
        if cores // threads > 1:
            yield Streams(cores // threads, threads, batch)


def _powers(cores: int) -> Iterator[int]:
    size = 2
    while size < cores:
        yield size
        size *= 2


def _batches(goal: TuningGoal) -> tuple[int, ...]:
    """The most images at once that are tried at first."""
    if goal.measure == "latency":
        return (1,)
    return (1, _LARGE if goal.p99 is None and goal.rate is None else _SMALL)


def loads(contestant: Contestant, goal: TuningGoal, parallel: int) -> Iterator[tuple[Load, ...]]:
    """The loads under which a contestant is measured, each tuple lighter than the next; within the bound, all of them.

    Where only throughput counts, it is kept busy with requests of all sizes. Twice as many callers as it serves at a
    time keep it from waiting; as many save single images the way through the queue, and large requests, which are
    shared out, memory.
    """
    if goal.measure == "latency":
        yield (Load(1, 1),)
    elif goal.rate is not None:
        yield (Load(1, _MOST_CALLERS * parallel, goal.rate),)
    elif goal.p99 is None:
        if contestant.spread is None:
            yield tuple(Load(batch, parallel) for batch in _BATCHES)
            return
        several = [Load(batch, 2 * parallel) for batch in _BATCHES[:-1] if batch <= 2 * contestant.spread.batch]
        yield (Load(1, parallel), *several, Load(_BATCHES[-1], parallel))
    else:
        callers = 1
        while callers <= _MOST_CALLERS * parallel:
            yield (Load(1, callers),)
            callers *= 2


def variants(best: Contestant, goal: TuningGoal) -> Iterator[tuple[str, Contestant]]:
    """The best so far with one setting changed, and what is changed."""
    spread = best.spread
    if spread is None:
        return
    if goal.measure == "throughput":
        for batch in (spread.batch // 2, spread.batch * 2):
            if batch:
                yield f"batch {batch}", replace(best, spread=replace(spread, batch=batch))
    if goal.p99 is not None and spread.batch > 1 and not spread.window:
        window = round(_WINDOW * goal.p99 / 1e3, 6)
        yield f"a window of {1e3 * window:g} ms", replace(best, spread=replace(spread, window=window))
    if isinstance(spread, Instances):
        for name, runtime in _runtimes(best.engine, spread.runtime):
            yield name, replace(best, spread=replace(spread, runtime=runtime))


def _runtimes(engine: str, runtime: Runtime) -> Iterator[tuple[str, Runtime]]:
    """Runtimes with one setting changed that can be used here."""
    for allocator in ("jemalloc", "tcmalloc"):
        changed = replace(runtime, allocator=allocator, huge_pages=False)
        if runtime.allocator == "system" and _installed(engine, changed):
            yield allocator, changed
    if not runtime.huge_pages and runtime.allocator != "tcmalloc" and _huge_pages():
        yield "huge pages", replace(runtime, huge_pages=True)
    if engine in DEPLOYED_ONNX:
        return
    if runtime.openmp == "gnu":
        if runtime.blocktime is None:
            yield "no spinning", replace(runtime, blocktime=0)
        for blocktime in _BLOCKTIMES:
            changed = replace(runtime, openmp="intel", blocktime=blocktime)
            if _installed(engine, changed):
                yield f"Intel's OpenMP, blocktime {blocktime}", changed


def _installed(engine: str, runtime: Runtime) -> bool:
    try:
        runtime.variables(engine, place("machine", read_topology())[0])
    except UserError:
        return False
    return True


def _huge_pages() -> bool:
    """Whether the system leaves transparent huge pages to programs."""
    try:
        return "[madvise]" in _HUGE_PAGES.read_text()
    except OSError:
        return False
