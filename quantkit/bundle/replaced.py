"""Reading a bundle while another process may put a new one in its place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Optional, TypeVar

from quantkit.errors import BundleError, QuantkitError
from quantkit.files.bundles import MANIFEST
from quantkit.files.text import read_bytes

_Read = TypeVar("_Read")

_ATTEMPTS = 10


def reading_whole(
    directory: Path, read: Callable[[], _Read], discard: Callable[[_Read], object] = lambda content: None
) -> _Read:
    """The result of ``read`` for the bundle in ``directory``, with all files from one bundle.

    If another bundle has replaced it meanwhile, which the manifest shows, that one is read instead, once ``discard``
    was given what was read.

    Raises:
        BundleError: the bundle was replaced in each of ten attempts.
        Exception: whatever ``read`` raises for a bundle that was not replaced.
    """
    for _ in range(_ATTEMPTS):
        before = _manifest(directory)
        try:
            content = read()
        except QuantkitError:
            if _manifest(directory) == before:
                raise
        else:
            if _manifest(directory) == before:
                return content
            discard(content)
    raise BundleError(f"{directory} was replaced each time it was read; wait for the process that writes it")


def _manifest(directory: Path) -> Optional[bytes]:
    with suppress(OSError):
        return read_bytes(directory / MANIFEST)
    return None
