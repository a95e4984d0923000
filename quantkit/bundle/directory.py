"""A directory of a known kind, such as a bundle: replaced whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from quantkit.bundle.manifest import KNOWN, MANIFEST
from quantkit.errors import QuantkitError, UserError


@dataclass(frozen=True)
class Kind:
    """A kind of directory.

    ``noun`` is what messages call it, with its article; ``mark`` is the file that it is known by, ``known`` are all.
    """

    noun: str
    mark: str
    known: frozenset[str]


BUNDLE = Kind("a bundle", MANIFEST, KNOWN)


def check_destination(directory: Path, force: bool = False, kind: Kind = BUNDLE) -> None:
    """Make sure that ``directory`` may be written: a new or empty one, with ``force`` an older one of its kind.

    Raises:
        UserError: it is a file, holds one of its kind and ``force`` is not given, or holds anything else.
    """
    if not os.path.lexists(directory):
        return
    if not directory.is_dir():
        raise UserError(f"{directory} exists and is not a directory; choose another output directory")
    found = {entry.name for entry in directory.iterdir()}
    if not found:
        return
    if kind.mark not in found:
        raise UserError(
            f"{directory} is not empty and not {kind.noun} (no {kind.mark}); choose another output directory"
        )
    if strangers := sorted(found - kind.known):
        raise UserError(
            f"{directory} holds {strangers[0]!r}, which is no part of {kind.noun}; "
            "move it away or choose another output directory"
        )
    if not force:
        raise UserError(
            f"{directory} holds {kind.noun} already; "
            "replace it with --force (force=True), or choose another output directory"
        )


@contextmanager
def replacing(directory: Path, force: bool = False, kind: Kind = BUNDLE) -> Iterator[Path]:
    """A new empty directory that takes the place of ``directory`` when the block ends.

    It lies beside it until then. On any error, Ctrl-C included, it is removed, and ``directory`` stays what it was.

    Raises:
        UserError: see ``check_destination``.
        QuantkitError: the disk is full, or the place cannot be written.
    """
    check_destination(directory, force, kind)
    target = directory.resolve()
    made = [folder for folder in target.parents if not folder.exists()]
    temporary = _beside(target)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        _exchange(temporary, target)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise QuantkitError(
                f"cannot write {directory}: {error.strerror or error}; free space or choose a folder you may write to"
            ) from error
        raise


def _exchange(new: Path, target: Path) -> None:
    """Put ``new`` in the place of ``target``, which is put back where that fails."""
    if not target.is_dir() or not any(target.iterdir()):
        os.replace(new, target)
        return
    aside = _beside(target)
    os.replace(target, aside)
    try:
        os.replace(new, target)
    except BaseException:
        os.replace(aside, target)
        raise
    # The new one is in place: what cannot be deleted of the old one is not worth an error.
    shutil.rmtree(aside, ignore_errors=True)


def _beside(target: Path) -> Path:
    """A name in the folder of ``target`` that nothing has."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}")
