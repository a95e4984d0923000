"""Where Python takes modules from, without the current folder."""

from __future__ import annotations

import os
from collections.abc import Iterable


def without_current_folder(path: Iterable[str]) -> list[str]:
    """The folders of ``path`` but for the current one, in which there may be files that nobody has vouched for.

    ``python -m`` puts it first, and an empty entry in PYTHONPATH means it too. Where it is one of Python's own
    folders it stays.
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
