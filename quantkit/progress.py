"""How long work tells how far it has come; who calls it decides what becomes of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")

Tell = Callable[[str], None]
"""Is told in a few words what begins or happens."""


class Progress(Protocol):
    """Is shown how far a stream has come."""

    def __call__(self, stream: Iterable[T], total: int, title: str) -> Iterable[T]:
        """The same stream, to be read in place of the other.

        Args:
            stream: the steps.
            total: how many there will be; 0 where nobody knows.
            title: what they do together.
        """


def silent(stream: Iterable[T], total: int, title: str) -> Iterable[T]:
    """Show nothing."""
    return stream


def untold(message: str) -> None:
    """Tell nobody."""
