"""Reading a bundle while another process may put a new one in its place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Optional, TypeVar

from quantkit.bundle.manifest import MANIFEST
from quantkit.errors import BundleError, QuantkitError
from quantkit.files.text import read_bytes

_Read = TypeVar("_Read")

_ATTEMPTS = 10


def reading_whole(directory: Path, read: Callable[[], _Read]) -> _Read:
    """What ``read`` makes of the bundle in ``directory``, all of whose files are of one bundle.

    Where another has taken the bundle's place meanwhile, which its manifest tells, that one is read.

    Raises:
        BundleError: it was replaced each of ten times.
        Exception: what ``read`` raises about a bundle that was not replaced.
    """
    for _ in range(_ATTEMPTS):
        before = _manifest(directory)
        try:
            found = read()
        except QuantkitError:
            if _manifest(directory) == before:
                raise
        else:
            if _manifest(directory) == before:
                return found
    raise BundleError(f"{directory} was replaced each time it was read; wait for the process that writes it")


def _manifest(directory: Path) -> Optional[bytes]:
    with suppress(OSError):
        return read_bytes(directory / MANIFEST)
    return None
