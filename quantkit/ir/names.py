"""Free names for what is added to a network."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count


class Names:
    """The names taken in a network, and a source of free ones.

    A free name is the wanted one, or the first of ``wanted_1``, ``wanted_2`` and so on that is not taken.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        # The last number tried for each wanted name; none below it is free.
        self._tried: dict[str, int] = {}

    def add(self, names: Iterable[str]) -> None:
        """Mark more names as taken."""
        self._taken.update(names)

    def free(self, wanted: str) -> str:
        """A free name, without taking it."""
        for number in count(self._tried.get(wanted, 0)):
            name = f"{wanted}_{number}" if number else wanted
            if name not in self._taken:
                break
        self._tried[wanted] = number
        return name

    def take(self, wanted: str) -> str:
        """A free name, marked as taken."""
        name = self.free(wanted)
        self._taken.add(name)
        return name
