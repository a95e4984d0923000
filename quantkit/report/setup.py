"""The set-up of a run: the host, the builds, the contestants, and the warnings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Optional

from quantkit.backends.registry import DEPLOYED
from quantkit.benchmark.results.results import Cell, Run
from quantkit.host.revision import described
from quantkit.report.page.table import FACTS, Table
from quantkit.report.study.summary import Study
from quantkit.report.study.words import TIMES, drawn_together, number

_FACTS = {
    "id": "host id",
    "cpu": "processor",
    "isa": "instruction sets",
    "sockets": "sockets",
    "nodes": "memory nodes",
    "cores": "physical cores",
    "threads": "hardware threads",
    "memory_gib": "memory, GiB",
    "virtual": "virtual machine",
    "usable_cores": "cores that may be used",
    "cpu_quota": "processor quota, cores",
    "governor": "frequency governor",
    "turbo": "turbo",
    "kernel": "kernel",
    "heat_counted": "slowing down for heat is counted",
}

# Facts whose absence means something else than that the system does not report them.
_ABSENT = {"cpu_quota": "none"}


def host(study: Study) -> Table:
    """The machine's facts, and the core-to-core latencies of the rounds, if they were measured."""
    facts = study.run.host
    names = dict.fromkeys(name for name in (*_FACTS, *facts) if name in facts)
    rows = [(_FACTS.get(name, name), _fact(facts[name], _ABSENT.get(name, "not told"))) for name in names]
    for (first, last), apart in sorted(_apart(study).items()):
        told = f"{min(apart):.0f} to {max(apart):.0f}, median {median(apart):.0f}"
        rows.append((f"core-to-core latency, {first} to {last} and back, ns", told))
    return Table("Machine", FACTS, tuple(rows))


def _apart(study: Study) -> dict[tuple[str, str], list[float]]:
    """The core-to-core latencies of all rounds, by the hardware threads between which they were measured."""
    found = defaultdict(list)
    for cell in study.cells.values():
        cpus = cell.placements[0].cpus or ("the first usable", "the last")
        for turn in cell.rounds:
            if turn.core_to_core is not None:
                found[str(cpus[0]), str(cpus[-1])].append(turn.core_to_core)
    return found


def _fact(value: Any, absent: str) -> str:
    if value is None:
        return absent
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def provenance(run: Run) -> Table:
    """When and how a run was made."""
    budget = "none" if run.budget is None else counted_minutes(run.budget)
    rows = (
        ("run", run.name),
        ("begun", run.created),
        ("took", counted_minutes(run.minutes)),
        ("time budget", budget),
        ("quantkit", run.quantkit),
        ("commit", described(run.revision)),
        ("seed of the order of turns", str(run.seed)),
        ("command", run.command),
    )
    return Table("Run", FACTS, rows)


def counted_minutes(minutes: float) -> str:
    """A time in words."""
    text = number(minutes) if minutes % 1 else str(int(minutes))
    return f"{text} {'minute' if text == '1' else 'minutes'}"


def builds(run: Run) -> Table:
    """The engine builds."""
    return Table(
        "Builds",
        ("build", "engine", "Python", "NumPy", "INT8 convolutions", "features"),
        tuple(
            (
                build.name,
                f"{DEPLOYED[build.engine].title} {build.version}",
                build.python_version,
                build.numpy,
                "yes" if build.int8 else "no",
                ", ".join(build.features),
            )
            for build in run.builds
        ),
    )


_NOTE = (
    "Variants: fp32 unfused, stock fused by MXNet, fused by quantkit, int8 by quantkit (for other engines than MXNet "
    "as ONNX); stock-int8 (for MXNet 1.5 stock-int8-1.5), onnxruntime-ptq, nncf quantized by MXNet, ONNX Runtime and "
    "NNCF with the same images, onnxruntime-dynamic by ONNX Runtime without any. The deviation is relative to the "
    "largest output of the reference, over all cells."
)


def contestants(study: Study) -> Table:
    """The contestants and the placements of their instances."""
    rows = []
    for each in study.run.contestants:
        cell = _first(study, each.name)
        baseline = " (baseline)" if each.name == study.run.baseline else ""
        rows.append(
            (
                *(each.name + baseline, each.build, each.variant, each.policy, *_placed(cell)),
                *(_memory(study, each.name), _agreement(study, each.name)),
            )
        )
    return Table(
        "Contestants",
        (
            "contestant",
            "build",
            "variant",
            "policy",
            f"instances {TIMES} threads",
            "processors",
            "memory",
            "largest deviation of outputs",
        ),
        tuple(rows),
        note=_NOTE,
    )


def _first(study: Study, name: str) -> Optional[Cell]:
    cells: Iterable[Cell] = (*study.cells.values(), *study.served, *study.failed)
    return next((cell for cell in cells if cell.contestant.name == name), None)


def _placed(cell: Optional[Cell]) -> tuple[str, str]:
    if cell is None:
        return "not run", ""
    threads = dict.fromkeys(placement.threads for placement in cell.placements)
    cpus = [ranges(each.cpus) if each.cpus is not None else "not pinned" for each in cell.placements]
    text = " | ".join(cpus) if any(each.cpus is not None for each in cell.placements) else "not pinned"
    return f"{len(cell.placements)} {TIMES} {' or '.join(map(str, threads))}", text


def _memory(study: Study, name: str) -> str:
    """The nodes on which the memory of all cells is proven to be, if it was bound."""
    cells = [cell for cell in (*study.cells.values(), *study.served) if cell.contestant.name == name]
    bound = [cell for cell in cells if any(each.nodes is not None for each in cell.placements)]
    if not bound:
        return "not bound"
    unproven = sum(
        len(cell.proofs) < len(cell.placements) or not all(each.pages for each in cell.proofs) for cell in bound
    )
    if unproven:
        return f"not proven in {unproven} of {len(bound)} cells"
    nodes = sorted({node for cell in bound for placement in cell.placements for node in placement.nodes or ()})
    return f"proven on node {ranges(nodes)}"


def ranges(numbers: Sequence[int]) -> str:
    """Whole numbers with runs as ranges, such as ``0-3,8``."""
    parts: list[list[int]] = []
    for value in sorted(numbers):
        if parts and value == parts[-1][1] + 1:
            parts[-1][1] = value
        else:
            parts.append([value, value])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def _agreement(study: Study, name: str) -> str:
    cells = (*study.cells.values(), *study.failed)
    agreements = [cell.agreement for cell in cells if cell.contestant.name == name and cell.agreement]
    if not agreements:
        return "not compared"
    worst = max(agreements, key=lambda each: each.deviation)
    against = "is the reference" if worst.reference == name and worst.deviation == 0 else f"from {worst.reference}"
    if against == "is the reference":
        return against
    limit = "not judged" if worst.allowed is None else f"{worst.allowed:.2g} allowed"
    return f"{worst.deviation:.2g} {against}, {limit}"


def kernels(study: Study) -> Table:
    """The convolutions, dense and recurrent layers that ran in INT8, as far as engines tell; empty if none does."""
    cells = {key: cell.kernels for key, cell in study.cells.items() if cell.kernels}
    names = [each.name for each in study.run.contestants if any(key[2] == each.name for key in cells)]
    rows = []
    for network, batch in dict.fromkeys(key[:2] for key in cells):
        counts = [cells.get((network, batch, name)) for name in names]
        told = (f"{each.int8} of {each.of}" if each else "no result" for each in counts)
        rows.append((network, str(batch), *told))
    return Table(
        "Convolutions, dense and recurrent layers in INT8",
        ("network", "batch size", *names),
        tuple(rows),
        frozenset(range(1, len(names) + 2)),
        note="As each engine told of the network that it ran: ONNX Runtime by a profile, OpenVINO by its compiled "
        "network. Of MXNet's kernels the commands quantize and profile tell.",
    )


def thread_settings(study: Study) -> Table:
    """The variables and settings of each contestant's instances, and the runtimes that they loaded."""
    rows = []
    for each in study.run.contestants:
        cell = _first(study, each.name)
        if cell is not None:
            told = {**cell.environment, **(cell.engine.get("settings") or {})}
            variables = "  ".join(f"{name}={value}" for name, value in told.items())
            libraries = cell.engine.get("libraries")
            loaded = "not told" if libraries is None else ", ".join(map(str, libraries)) or "none"
            rows.append((each.name, variables or "none", loaded))
    return Table(
        "Thread settings", ("contestant", "variables and settings", "threading runtimes and allocators"), tuple(rows)
    )


def grouped_warnings(study: Study) -> tuple[str, ...]:
    """The cells' warnings; those that differ only in numbers are merged."""
    return drawn_together((warning for _, warning in study.warned), "cell")
