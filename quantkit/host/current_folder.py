"""Keeping the current folder, whose files are untrusted, out of the search paths for code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

# The search paths of libraries and programs; an empty or relative entry means the current folder, or one in it.
_SEARCHED = ("LD_LIBRARY_PATH", "PATH")


def without_current_folder(path: Iterable[str]) -> list[str]:
    """The folders of Python's ``path`` without the current one, unless it is one of Python's own.

    ``python -m`` puts it first, and an empty entry in PYTHONPATH means it, too.
    """
    entries = list(path)
    try:
        current = os.path.realpath(os.getcwd())
    except OSError:
        # It was removed; only relative entries can mean it.
        return [entry for entry in entries if os.path.isabs(entry)]
    kept = [entry for entry in entries if os.path.isabs(entry) and os.path.realpath(entry) != current]
    if len(kept) == len(entries):
        return kept
    import sysconfig

    if current in {os.path.realpath(each) for each in sysconfig.get_paths().values()}:
        return [entry for entry in entries if os.path.isabs(entry)]
    return kept


def searching_elsewhere(environment: Mapping[str, str]) -> dict[str, str]:
    """A copy of an environment whose search paths for libraries and programs have absolute folders only."""
    safe = dict(environment)
    for name in _SEARCHED:
        if name in safe:
            safe[name] = os.pathsep.join(filter(os.path.isabs, safe[name].split(os.pathsep)))
            if not safe[name]:
                del safe[name]
    return safe
