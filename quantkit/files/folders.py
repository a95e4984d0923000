"""Folders written whole or not at all, and the kinds of folders that quantkit writes."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from quantkit.errors import QuantkitError, UserError
from quantkit.files.files import sync, sync_folder
from quantkit.files.temporary import (
    is_temporary,
    locked_alone,
    remove,
    remove_leftovers,
    temporary_folder,
    temporary_name,
)
from quantkit.files.text import check_name

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2

# The errors of a file system or a kernel that cannot exchange two names.
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


@dataclass(frozen=True)
class Kind:
    """A kind of folder.

    ``noun`` is its name in messages, with the article; ``mark`` is the file that identifies it. ``known`` are all its
    files, as paths in it or patterns of such paths. One that ``is_derived`` can be made again from its sources, and is
    replaced without ``force``; ``replacing`` is what asks for ``force``.
    """

    noun: str
    mark: str
    known: frozenset[str]
    is_derived: bool = False
    replacing: str = "--force (force=True)"


def check_destination(directory: Path, force: bool, kind: Kind) -> None:
    """Check that ``directory`` may be written: it is new or empty or, with ``force``, an older one of its kind.

    Raises:
        UserError: it is a file, is one of its kind and ``force`` is not given, or holds anything else.
    """
    if not os.path.lexists(directory):
        return
    if not directory.is_dir():
        raise UserError(f"{directory} exists and is not a directory; choose another output directory")
    if not any(directory.iterdir()):
        return
    if not (directory / kind.mark).exists():
        raise UserError(
            f"{directory} is not empty and not {kind.noun} (no {kind.mark}); choose another output directory"
        )
    if unknown := next(_unknown_files(directory, kind), None):
        raise UserError(
            f"{directory} holds {unknown!r}, which is not part of {kind.noun}; "
            "move it away or choose another output directory"
        )
    if not (force or kind.is_derived):
        raise UserError(
            f"{directory} holds {kind.noun} already; "
            f"replace it with {kind.replacing}, or choose another output directory"
        )


def _unknown_files(directory: Path, kind: Kind) -> Iterator[str]:
    """The files in a folder that its kind does not have, as paths in it."""
    for folder, folders, files in os.walk(directory):
        # A link to a folder is listed among the folders and not followed.
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted([*files, *links]):
            path = os.path.relpath(os.path.join(folder, name), directory)
            if not is_temporary(name) and not any(fnmatchcase(path, known) for known in kind.known):
                yield path


@contextmanager
def replacing(directory: Path, force: bool, kind: Kind) -> Iterator[Path]:
    """A new empty folder that takes the place of ``directory`` when the block ends; see ``whole_folder``.

    Raises:
        UserError: see ``check_destination``, which is called at the beginning and at the end.
        QuantkitError: the disk is full, or the place cannot be written.
    """
    check_destination(directory, force, kind)
    with whole_folder(directory, force or kind.is_derived) as new:
        yield new
        check_destination(directory, force, kind)


@contextmanager
def whole_folder(directory: Path, replace: bool = True) -> Iterator[Path]:
    """A new empty folder that takes the place of ``directory``; without ``replace`` only if that is empty or missing.

    It lies beside ``directory`` until the block ends, then goes to the disk and takes its place; see ``put_folder``.
    On any error before that, Ctrl-C included, it is removed, and ``directory`` stays as it was. The leftovers of
    killed processes are removed, too.

    Raises:
        QuantkitError: the disk is full, or the place cannot be written.
    """
    made: list[Path] = []
    try:
        check_name(directory)
        target = directory.resolve()
        made += [folder for folder in target.parents if not folder.exists()]
        for folder in reversed(made):
            folder.mkdir(exist_ok=True)
        remove_leftovers(target.parent)
        with temporary_folder(target) as new:
            yield new
            sync_tree(new)
            put_folder(new, target, replace)
        for folder in made:
            sync_folder(folder.parent)
    except BaseException as error:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise QuantkitError(
                f"cannot write {directory}: {error.strerror or error}; free space or choose a folder you may write to"
            ) from error
        raise


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new empty folder among the system's temporary files, removed when the block ends.

    Raises:
        QuantkitError: the disk is full, or the place cannot be written.
        OSError: the block's own, of other files or of a connection.
    """
    folder = None
    try:
        place = Path(tempfile.gettempdir())
        remove_leftovers(place)
        with temporary_folder(place / "scratch", 0o700) as folder:
            yield folder
    except OSError as error:
        elsewhere = folder is not None and not Path(error.filename or folder).is_relative_to(folder)
        if elsewhere or isinstance(error, ConnectionError):
            raise
        raise QuantkitError(
            f"cannot work with temporary files: {error.strerror or error}; free space, or set TMPDIR to another folder"
        ) from error


def put_folder(new: Path, target: Path, replace: bool = True) -> None:
    """Put ``new`` in the place of ``target`` in one step; an older ``target`` then has the name of ``new``, or is gone.

    If the file system cannot exchange two names (renameat2 with RENAME_EXCHANGE; NFS, CIFS and some of FUSE cannot),
    the older folder is moved aside first and moved back if the new one cannot take its place. A process that is killed
    between these two steps leaves the older folder aside, and the next one puts it back.

    Raises:
        OSError: a folder cannot be renamed, or ``target`` is not empty and ``replace`` not given; ``target`` is then
            unchanged. Or the step cannot be flushed to the disk; ``target`` is then the new folder.
    """
    try:
        # This replaces an empty folder, too.
        os.rename(new, target)
    except OSError as error:
        if not replace or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not _exchanged(new, target):
            _step_aside(new, target)
    sync_folder(target.parent)


def _exchanged(first: Path, second: Path) -> bool:
    """Exchange two names in one step; returns whether the file system could."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):  # glibc before 2.28
        return False
    if libc.renameat2(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number not in _NO_EXCHANGE:
        raise OSError(number, os.strerror(number), str(second))
    return False


def _step_aside(new: Path, target: Path) -> None:
    aside = temporary_name(target, "old")
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # While it is locked, no process takes it for a leftover.
        locked_alone(descriptor, target)
        try:
            os.rename(target, aside)
            os.rename(new, target)
        except BaseException:
            if os.path.lexists(aside) and not os.path.lexists(target):
                os.rename(aside, target)
            raise
        # The new folder is in place: a failure to delete the old one is not worth an error.
        remove(aside)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush all files of a folder, and their names, to the disk."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                sync(path)
        sync_folder(Path(place))
