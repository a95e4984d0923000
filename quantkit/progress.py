"""How long work reports its progress; the caller decides what to do with the reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")

Tell = Callable[[str], None]
"""Called with a few words when something begins or happens."""


class Progress(Protocol):
    """A function that shows how far a stream of steps has come, such as tqdm."""

    def __call__(self, stream: Iterable[T], total: int, title: str) -> Iterable[T]:
        """Return the same stream, to be read in place of the one given.

        Args:
            stream: the steps.
            total: how many there will be; 0 if that is unknown.
            title: what they do together.
        """


def silent(stream: Iterable[T], total: int, title: str) -> Iterable[T]:
    """Show nothing."""
    return stream


def untold(message: str) -> None:
    """Tell nobody."""
