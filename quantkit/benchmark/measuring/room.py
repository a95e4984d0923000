"""The memory that the contestants of a network share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quantkit.benchmark.measuring.group import Bench
from quantkit.benchmark.measuring.memory import STEP, Memory, fitting, planned, reason
from quantkit.benchmark.results.results import Contestant
from quantkit.host.memory import available_memory


class Room:
    """Which contestants fit into memory at a batch size.

    What they will take is predicted from what they took. Where that is known of fewer than two batch sizes, they run
    once at the smallest and once at a multiple of it.
    """

    def __init__(self, bench: Bench, memory: Memory, network: str, smallest: int, first: str) -> None:
        """Begin with what is known.

        Args:
            bench: the network with its contestants' instances.
            memory: what contestants took before.
            network: its name.
            smallest: the smallest batch size, at which every contestant is tried.
            first: the contestant that comes before all others.
        """
        self._bench, self._memory, self._network = bench, memory, network
        self._smallest, self._first = smallest, first

    def refused(self, contestants: Sequence[Contestant], batch: int) -> Mapping[str, str]:
        """Why contestants do not fit at a batch size, by name; their instances are ended."""
        if batch == self._smallest:
            return {}
        needs, most = self._needs(contestants, batch)
        fits = fitting(needs, self._first, most)
        out = [each for each in contestants if each.name not in fits]
        for each in out:
            self._bench.end(each)
        return {each.name: reason(needs, each.name, most) for each in out}

    def holds(self, contestants: Sequence[Contestant], batch: int) -> bool:
        """Whether all contestants fit at a batch size."""
        needs, most = self._needs(contestants, batch)
        return sum(needs.values()) <= most

    def _needs(self, contestants: Sequence[Contestant], batch: int) -> tuple[dict[str, int], int]:
        """The bytes that each contestant will take, and the bytes that all together may."""
        for each in contestants:
            self._try(each, batch)
        needs = {each.name: self._memory.needed(self._network, each.name, batch) for each in contestants}
        available = available_memory()
        held = sum(map(self._bench.resident, contestants))
        return needs, sum(needs.values()) if available is None else planned(available, held)

    def _try(self, contestant: Contestant, batch: int) -> None:
        """Run a contestant at two batch sizes below this one, as far as they are not known."""
        for size in (self._smallest, STEP * self._smallest):
            if size < batch and not self._memory.has_seen(self._network, contestant.name, size):
                taken = self._bench.probe(contestant, size)
                if taken is None:
                    return
                self._memory.learn(self._network, contestant.name, size, taken)
