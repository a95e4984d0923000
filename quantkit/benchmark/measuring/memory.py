"""Which contestants fit into memory together at a batch size, judged by what they took at smaller ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

# The share of the memory that may be planned with: engines need more while they bind, and this process computes the
# outputs that INT8 must have once itself.
_PLANNED = 0.7

# Two batch sizes show how fast memory grows; the second of them is the first times this.
STEP = 4


class Memory:
    """What contestants took at which batch size, in bytes of resident memory over all their instances."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, str], dict[int, int]] = {}

    def learn(self, network: str, contestant: str, batch: int, taken: int) -> None:
        """Record what a contestant took."""
        self._taken.setdefault((network, contestant), {})[batch] = taken

    def has_seen(self, network: str, contestant: str, batch: int) -> bool:
        """Whether it is known what a contestant took at a batch size."""
        return batch in self._taken.get((network, contestant), {})

    def needed(self, network: str, contestant: str, batch: int) -> int:
        """What a contestant will take: on the line through the two largest batch sizes, at least what it once took.

        0 where fewer than two are known.
        """
        taken = self._taken.get((network, contestant), {})
        if len(taken) < 2:
            return 0
        (small, least), (large, most) = sorted(taken.items())[-2:]
        return max(*taken.values(), round(most + (most - least) * (batch - large) / (large - small)))


def planned(available: int, held: int) -> int:
    """The bytes that contestants may take, of what is ``available`` and what they hold already."""
    return int(_PLANNED * (available + held))


def fitting(needs: Mapping[str, int], first: str, most: int) -> set[str]:
    """The contestants that fit into ``most`` bytes together: ``first`` before others, then those that need least."""
    chosen: set[str] = set()
    for name in sorted(needs, key=lambda name: (name != first, needs[name])):
        if needs[name] <= most:
            most -= needs[name]
            chosen.add(name)
    return chosen


def reason(needs: Mapping[str, int], name: str, most: int) -> str:
    """Why a contestant does not fit."""
    return (
        f"at this batch size it would take about {_gigabytes(needs[name])} of memory, all contestants together "
        f"{_gigabytes(sum(needs.values()))}, and {_gigabytes(most)} may be used"
    )


def larger_than(batches: Sequence[int], candidates: Collection[int]) -> tuple[int, ...]:
    """The candidates above all batch sizes, ascending."""
    return tuple(sorted(size for size in candidates if size > max(batches)))


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
