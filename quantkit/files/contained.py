"""Files that other files name, which must lie in the folder of the naming file."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from quantkit.errors import UserError


def file_in(folder: Path, name: str) -> Path:
    """The path of the ordinary file ``name`` in or below a folder, whether it exists or not.

    Raises:
        UserError: the name is absolute or contains ``..``, a link leads out of the folder, or it names a folder, a
            device, a pipe or a socket; or no folder can have the folder's name.
    """
    if "\0" in str(folder):
        raise UserError(f"there is no folder {str(folder)!r}: a name cannot hold a NUL character; give another")
    pure = PurePosixPath(name)
    if not name or "\0" in name or pure.is_absolute() or ".." in pure.parts:
        raise UserError(f"{name!r} does not lie in {folder}; give a relative name, and put the file there")
    path = folder / name
    inside = os.path.realpath(folder)
    if os.path.commonpath([inside, os.path.realpath(path)]) != inside:
        raise UserError(f"{path} is a link out of {folder}; copy the file there")
    if os.path.lexists(path) and not path.is_file():
        raise UserError(f"{path} is not an ordinary file; put one there")
    return path
