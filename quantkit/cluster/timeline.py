"""What a cluster has done: how many shards, what was moved, and how much of the time workers had work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from quantkit.cluster.worker import Work
from quantkit.units import counted, megabytes, percent


@dataclass(frozen=True)
class Timeline:
    """The work of a cluster over some time; at least one shard.

    Attributes:
        shards: how many were computed.
        workers: how many workers have computed any.
        seconds: from the beginning of the first to the end of the last, by the hosts' clocks.
        busy: the share of this time in which the workers' slots had a shard, from 0 to 1.
        slowest: the longest shard in units of the median.
        received: bytes of networks and samples that engines were handed.
        size: bytes of the partial results.
    """

    shards: int
    workers: int
    seconds: float
    busy: float
    slowest: float
    received: int
    size: int

    @property
    def text(self) -> str:
        """The figures in words."""
        return (
            f"{counted(self.shards, 'shard')} on {counted(self.workers, 'worker')} in {self.seconds:.1f} s, "
            f"{megabytes(self.size)} came back; workers were busy {percent(self.busy)} of the time, the slowest shard "
            f"took {self.slowest:.1f} times the median"
        )


def timeline(work: Sequence[Work], slots: int) -> Timeline:
    """The timeline of some work in ``slots``: shards that are computed at once."""
    seconds = max(each.ended for each in work) - min(each.began for each in work)
    each_took = [each.seconds for each in work]
    return Timeline(
        len(work),
        len({each.worker for each in work}),
        seconds,
        min(1.0, sum(each_took) / (slots * seconds)) if seconds else 1.0,
        max(each_took) / median(each_took) if median(each_took) else 1.0,
        sum(each.received for each in work),
        sum(each.size for each in work),
    )
