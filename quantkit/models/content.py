"""The size and the hashes of a file's content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Optional


@dataclass(frozen=True)
class Content:
    """The size in bytes and the hashes, in hexadecimal, of a file's content."""

    size: int
    sha256: str
    sha1: str


def content_of(blocks: Iterable[bytes], copy: Optional[IO[bytes]] = None) -> Content:
    """Size and hashes of bytes, which are also written to ``copy`` if that is given."""
    size, sha256, sha1 = 0, hashlib.sha256(), hashlib.sha1(usedforsecurity=False)
    for block in blocks:
        size += len(block)
        sha256.update(block)
        sha1.update(block)
        if copy is not None:
            copy.write(block)
    return Content(size, sha256.hexdigest(), sha1.hexdigest())
