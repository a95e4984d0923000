"""Names that nothing in a network has."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count


class Names:
    """The names that are taken in a network, and the free ones that what is added to it gets.

    A free name is the wanted one, or the first of ``wanted_1``, ``wanted_2`` and so on that nothing has.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        # The last number that was tried for each wanted name, below which none is free.
        self._tried: dict[str, int] = {}

    def add(self, names: Iterable[str]) -> None:
        """Count more names among those that are taken."""
        self._taken.update(names)

    def free(self, wanted: str) -> str:
        """A free name, which stays free."""
        for number in count(self._tried.get(wanted, 0)):
            name = f"{wanted}_{number}" if number else wanted
            if name not in self._taken:
                break
        self._tried[wanted] = number
        return name

    def take(self, wanted: str) -> str:
        """A free name, which is taken from now on."""
        name = self.free(wanted)
        self._taken.add(name)
        return name
