"""Where the files of a folder of shards are: what reading them needs, and how a local folder gives it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Optional, Protocol

from quantkit.files.files import as_text
from quantkit.files.text import open_ordinary, read_bytes


class ShardFiles(Protocol):
    """The files of one folder, by their names in it; what cannot be read is an ``OSError``."""

    @property
    def name(self) -> str:
        """The folder's own name."""

    def where(self, file: str) -> str:
        """What messages call a file."""

    def size(self, file: str) -> int:
        """The bytes of a file."""

    def content(self, file: str, most: int) -> bytes:
        """The whole of a file of at most ``most`` bytes."""

    def opened(self, file: str, start: int, end: Optional[int]) -> AbstractContextManager[IO[bytes]]:
        """A file that is going to be read from ``start`` to ``end``, or to its own end."""


@dataclass(frozen=True)
class LocalFiles:
    """The files of a local folder."""

    folder: Path

    @property
    def name(self) -> str:
        """See ``ShardFiles``."""
        return as_text(self.folder.resolve().name)

    def where(self, file: str) -> str:
        """See ``ShardFiles``."""
        return str(self.folder / file)

    def size(self, file: str) -> int:
        """See ``ShardFiles``."""
        return (self.folder / file).stat().st_size

    def content(self, file: str, most: int) -> bytes:
        """See ``ShardFiles``."""
        return read_bytes(self.folder / file, most)

    def opened(self, file: str, start: int, end: Optional[int]) -> AbstractContextManager[IO[bytes]]:
        """See ``ShardFiles``; the kernel reads ahead by itself."""
        return open_ordinary(self.folder / file)
