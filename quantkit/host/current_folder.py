"""Keeping the current folder, where files of strangers may lie, out of where code is looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

# An empty or relative entry in these means the current folder, or one in it: of libraries and of programs.
_SEARCHED = ("LD_LIBRARY_PATH", "PATH")


def without_current_folder(path: Iterable[str]) -> list[str]:
    """The folders of Python's ``path`` but for the current one, unless it is one of Python's own.

    ``python -m`` puts it first, and an empty entry in PYTHONPATH means it too.
    """
    entries = list(path)
    try:
        current = os.path.realpath(os.getcwd())
    except OSError:
        # It was removed, and only relative entries can mean it.
        return [entry for entry in entries if os.path.isabs(entry)]
    kept = [entry for entry in entries if os.path.isabs(entry) and os.path.realpath(entry) != current]
    if len(kept) == len(entries):
        return kept
    import sysconfig

    if current in {os.path.realpath(each) for each in sysconfig.get_paths().values()}:
        return [entry for entry in entries if os.path.isabs(entry)]
    return kept


def searching_elsewhere(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of an environment in which libraries and programs are looked for in folders with absolute names only."""
    found = dict(environment)
    for name in _SEARCHED:
        if name in found:
            found[name] = os.pathsep.join(filter(os.path.isabs, found[name].split(os.pathsep)))
            if not found[name]:
                del found[name]
    return found
