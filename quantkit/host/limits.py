"""The limits that a container or a service manager sets, which the scheduler's affinity does not show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Optional


@dataclass(frozen=True)
class Limits:
    """``cpu_quota`` is the processor time allowed, in cores; ``memory`` in bytes; None where unlimited.

    ``unreadable`` names an existing file that could not be read: the true limits may be tighter.
    """

    cpu_quota: Optional[float] = None
    memory: Optional[int] = None
    unreadable: str = ""


def read_limits(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> Limits:
    """The tightest limits of this process's control groups and all their ancestors, of version 1 and 2.

    Files: ``cpu.max`` and ``memory.max`` (version 2), ``cpu.cfs_quota_us``, ``cpu.cfs_period_us`` and
    ``memory.limit_in_bytes`` (version 1), as the Linux kernel's cgroup documentation defines them.
    """
    quotas: list[float] = []
    memories: list[float] = []
    unreadable: list[str] = []
    try:
        for group in _groups(proc / "self" / "cgroup", root):
            for limits, read in ((quotas, _quotas), (memories, _memories)):
                try:
                    limits.extend(read(group))
                except OSError as error:
                    unreadable.append(str(error.filename))
    except OSError as error:
        unreadable.append(str(error.filename))
    memory = min(memories, default=None)
    return Limits(min(quotas, default=None), None if memory is None else int(memory), "".join(unreadable[:1]))


def memory_left(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> Optional[int]:
    """Bytes that this process's control groups and their ancestors leave it; None if none limits it.

    Files: ``memory.max``, ``memory.current`` and ``memory.stat`` (version 2), ``memory.limit_in_bytes``,
    ``memory.usage_in_bytes`` and ``memory.stat`` (version 1). Used memory includes the cache of files that were not
    read lately (``inactive_file``), which the system reclaims, as the Linux kernel's cgroup documentation says.
    """
    left: list[int] = []
    with suppress(OSError):
        for group in _groups(proc / "self" / "cgroup", root):
            limits = list(_memories(group))
            # The kernel adds up the statistics of many processors for whoever reads them, which takes a while.
            if not limits:
                continue
            used = sum((*_numbers(group / "memory.current"), *_numbers(group / "memory.usage_in_bytes")))
            words = _fields(group / "memory.stat")
            cached = int(words[words.index("inactive_file") + 1]) if "inactive_file" in words else 0
            left += [max(0, int(limit) - used + cached) for limit in limits]
    return min(left, default=None)


def cut_short(proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")) -> Optional[int]:
    """The number of periods in which this process's control groups used up their quota; None if unknown.

    File: ``cpu.stat``, field ``nr_throttled`` (version 1 and 2), as the Linux kernel's cgroup documentation defines it.
    """
    try:
        # Version 1 mounts one hierarchy under several names.
        files = dict.fromkeys((group / "cpu.stat").resolve() for group in _groups(proc / "self" / "cgroup", root))
        fields = [_fields(file) for file in files]
    except OSError:
        return None
    counts = [int(each[each.index("nr_throttled") + 1]) for each in fields if "nr_throttled" in each]
    return sum(counts) if counts else None


def _groups(membership: Path, root: Path) -> Iterator[Path]:
    """The folders of the process's groups, innermost first, then their ancestors up to the mount point."""
    try:
        lines = membership.read_text().splitlines()
    except FileNotFoundError:  # a kernel without control groups
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        # Inside a container the host's path does not exist below the mount; the mount's top is then the group.
        relative = Path(path.lstrip("/"))
        for mount in _mounts(controllers, root):
            yield from (mount / part for part in (relative, *relative.parents))


def _mounts(controllers: str, root: Path) -> tuple[Path, ...]:
    if not controllers:
        return (root, root / "unified")
    return (root / controllers, *(root / name for name in controllers.split(",") if name != controllers))


def _quotas(group: Path) -> Iterator[float]:
    fields = _fields(group / "cpu.max")
    if len(fields) == 2 and fields[0] != "max":
        yield int(fields[0]) / int(fields[1])
    for quota in _numbers(group / "cpu.cfs_quota_us"):
        for period in _numbers(group / "cpu.cfs_period_us"):
            if quota > 0:
                yield quota / period


def _memories(group: Path) -> Iterator[float]:
    yield from _numbers(group / "memory.max")
    # Version 1 writes "unlimited" as the largest multiple of the page size.
    yield from (value for value in _numbers(group / "memory.limit_in_bytes") if value < 1 << 62)


def _numbers(file: Path) -> Iterator[int]:
    yield from (int(field) for field in _fields(file) if field.lstrip("-").isdigit())


def _fields(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except (FileNotFoundError, NotADirectoryError):
        return []
