"""Proof of an instance's placement, read from /proc while it runs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit.benchmark.placement.placement import Placement
from quantkit.errors import InstanceError
from quantkit.files.schema import Many
from quantkit.host.topology import parse_list

# Pages that may be elsewhere, since a self-binding interpreter has touched some before. Both must be exceeded.
_STRAY_SHARE = 0.05
_STRAY_PAGES = 4096

# The column of a thread's last hardware thread in proc(5)'s stat, counted after the name.
_PROCESSOR = 36

# Attempts to read all threads while some come and go.
_ATTEMPTS = 10


@dataclass(frozen=True)
class Proof:
    """An instance's actual placement: its threads, the hardware threads that they may use, its pages by node.

    ``bound`` is the number of threads that OpenMP has bound to separate places; ``pages`` is None if the kernel does
    not report them, and the place of its memory is then not proven.
    """

    threads: int
    bound: int
    cpus: Many[int]
    pages: Optional[Mapping[int, int]]


def prove(pid: int, placement: Placement, proc: Path = Path("/proc")) -> Proof:
    """The actual placement of a process's threads and memory.

    ``bound`` counts the hardware threads of the placement that some thread is bound to alone: threads bound to
    the same one count once. ``pages`` counts private anonymous memory in units of 4 KiB by node; None if
    the kernel does not report it. Mapped files are wherever the page cache has them, and do not count.

    Raises:
        InstanceError: the process is gone, or some of its threads cannot be read.
    """
    process = proc / str(pid)
    masks = _masks(process)
    asked = set(placement.cpus or ())
    alone = {cpu for mask in masks if len(mask) == 1 for cpu in mask}
    return Proof(
        threads=len(masks),
        bound=len(alone & asked) if asked else len(alone),
        cpus=tuple(sorted(set().union(*masks))),
        pages=_pages(process),
    )


def problem(proof: Proof, placement: Placement, openmp: bool = True) -> Optional[str]:
    """Why an instance's placement is wrong; None if it is right, or if the instance is not pinned.

    Wrong are a thread that may run on other hardware threads, OpenMP threads that are not bound separately, memory on
    other nodes that is more than five percent and more than 16 MiB, and bound memory that the kernel does not report,
    which is not proven. Fewer bound threads than requested are not wrong: GNU's runtime ends threads without work.
    Threads that are not ``openmp``'s share the hardware threads of their instance.
    """
    if placement.cpus is None:
        return None
    stray = sorted(set(proof.cpus) - set(placement.cpus))
    if stray:
        return f"its threads may run on hardware threads {_list(stray)}, beyond {_list(placement.cpus)}"
    if openmp and proof.bound < min(2, placement.threads):
        return (
            f"OpenMP has bound threads to {proof.bound} of its {placement.threads} hardware threads; "
            "look whether the engine uses another OpenMP runtime than it was told to"
        )
    return None if placement.nodes is None else _memory_problem(proof.pages, placement.nodes)


def _memory_problem(pages: Optional[Mapping[int, int]], nodes: Collection[int]) -> Optional[str]:
    if not pages:
        return f"memory not proven: numa_maps in /proc does not tell whether it lies on nodes {_list(nodes)}"
    away = {node: count for node, count in pages.items() if node not in nodes}
    total, stray = sum(pages.values()), sum(away.values())
    if stray > max(_STRAY_PAGES, _STRAY_SHARE * total):
        return f"{stray / total:.0%} of its memory lies on nodes {_list(away)}, not on {_list(nodes)}"
    return None


def _masks(process: Path) -> list[frozenset[int]]:
    """The hardware threads that each thread may use, with the one that it last ran on."""
    for _ in range(_ATTEMPTS):
        before = _threads(process)
        # A thread may end while it is read; then all are read again.
        with suppress(FileNotFoundError, ProcessLookupError):
            masks = [_mask(task) for task in before]
            if _threads(process) == before:
                return masks
    raise InstanceError("placement", f"placement not proven: threads of process {process.name} come and go")


def _threads(process: Path) -> list[Path]:
    try:
        tasks = sorted(process / "task" / name for name in os.listdir(process / "task"))
    except (FileNotFoundError, ProcessLookupError):
        tasks = []
    except OSError as error:
        raise _unreadable(process / "task", error.strerror or str(error)) from error
    if not tasks:
        raise InstanceError("crashed", f"process {process.name} ended before its placement was looked at")
    return tasks


def _mask(task: Path) -> frozenset[int]:
    try:
        allowed = re.search(r"^Cpus_allowed_list:(.*)", (task / "status").read_text(), re.MULTILINE)
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        cpus = parse_list(allowed[1]) if allowed else ()
        last = int(fields[_PROCESSOR])
    except (FileNotFoundError, ProcessLookupError):
        raise
    except OSError as error:
        raise _unreadable(task, error.strerror or str(error)) from error
    except (ValueError, IndexError) as error:
        raise _unreadable(task, "it is not as proc(5) has it") from error
    if not cpus:
        raise _unreadable(task, "it does not tell Cpus_allowed_list")
    return frozenset(cpus) | {last}


def _unreadable(path: Path, why: str) -> InstanceError:
    return InstanceError("placement", f"placement not proven: {path} cannot be read: {why}")


def _pages(process: Path) -> Optional[dict[int, int]]:
    """The lines of numa_maps are ``address policy key=value ...`` with the pages on node 1 as ``N1=``."""
    pages: Counter[int] = Counter()
    try:
        for line in (process / "numa_maps").read_text().splitlines():
            fields: Mapping[str, str] = dict(re.findall(r"(\w+)=(\S+)", line))
            if "file" not in fields:
                units = int(fields.get("kernelpagesize_kB", 4)) // 4
                for name, value in fields.items():
                    if re.fullmatch(r"N\d+", name):
                        pages[int(name[1:])] += int(value) * units
    except (OSError, ValueError):
        return None
    # Every process has pages: none means that the kernel did not report them.
    return dict(sorted(pages.items())) or None


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers)))
