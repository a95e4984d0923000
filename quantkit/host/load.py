"""How busy other processes keep the usable cores."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, TypeVar

# Columns of a cpu line, after proc(5): user nice system idle iowait irq softirq steal (guest is part of user).
_IDLE, _IOWAIT, _STEAL, _COLUMNS = 3, 4, 7, 8

# Working counters change within this time, in seconds: a tick is 10 ms.
_TELLING = 0.1

Ticks = Mapping[int, tuple[int, ...]]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Load:
    """The load during ``seconds``: ``busy`` is in cores, ``stolen`` the part of it that the hypervisor took."""

    busy: float
    stolen: float
    seconds: float

    def of_others(self, own: float) -> Load:
        """The load of other processes, where the caller's took ``own`` seconds of the processors.

        Ticks are coarse: without others, ``busy`` may fall a little below 0.
        """
        return replace(self, busy=self.busy - self.stolen - own / self.seconds)


def read_load(
    cpus: Collection[int],
    seconds: float = 0.25,
    proc: Path = Path("/proc"),
    sleep: Callable[[float], None] = time.sleep,
) -> Optional[Load]:
    """The load on the hardware threads ``cpus`` while this process sleeps; None if the system does not show it."""
    before = read_ticks(proc / "stat")
    sleep(seconds)
    return load_between(before, read_ticks(proc / "stat"), cpus, seconds)


def with_load_of_others(
    run: Callable[[], Result], cpus: Collection[int], stat: Path = Path("/proc/stat")
) -> tuple[Result, Optional[Load]]:
    """The result of ``run``, and the load of other processes meanwhile; None if the system does not show it.

    Args:
        run: what this process does, without starting others.
        cpus: the hardware threads to watch.
        stat: where the system shows it.
    """
    begun, before, own = time.monotonic(), read_ticks(stat), time.process_time()
    result = run()
    elapsed, own = time.monotonic() - begun, time.process_time() - own
    load = load_between(before, read_ticks(stat), cpus, elapsed)
    return result, None if load is None else load.of_others(own)


def load_between(before: Ticks, after: Ticks, cpus: Collection[int], seconds: float) -> Optional[Load]:
    """The load between two readings of the per-thread tick counters.

    None if they show nothing: a thread's counters are missing, or all stand still for longer than
    a few ticks (in some sandboxes they always do).
    """
    busy = stolen = ticks = 0.0
    if any(cpu not in before or cpu not in after for cpu in cpus):
        return None
    for cpu in cpus:
        # iowait may run backwards by a tick; no time is negative.
        spent = [max(0, new - old) for old, new in zip(before[cpu], after[cpu])]
        total = sum(spent)
        if total:
            busy += 1 - (spent[_IDLE] + spent[_IOWAIT]) / total
            stolen += spent[_STEAL] / total
            ticks += total
    return None if not ticks and seconds > _TELLING else Load(busy, stolen, seconds)


def read_ticks(stat: Path) -> Ticks:
    """The tick counters of every hardware thread in a ``/proc/stat``; empty if there is no such file."""
    try:
        lines = stat.read_text().splitlines()
    except OSError:
        return {}
    fields = [line.split() for line in lines if line.startswith("cpu") and line[3:4].isdigit()]
    return {int(name[3:]): tuple(int(value) for value in values[:_COLUMNS]) for name, *values in fields}
