"""The journal of a search: every finished measurement, so that an interrupted search can continue.

It lies under ``QUANTKIT_HOME``, named by a hash of all that determines the measurements, not beside the bundle:
the same search finds it again whatever bundle it writes, and bundles hold no other files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from quantkit.errors import QuantkitError
from quantkit.files.cache import use
from quantkit.files.files import home
from quantkit.files.text import MEBIBYTE, parse_json, read_bytes

Value = dict[str, Any]

_LARGEST_FILE = 256 * MEBIBYTE


def journal_path(facts: Mapping[str, Any]) -> Path:
    """The path of a search's journal; ``facts`` are all that determines its measurements."""
    name = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return _folder() / f"{name}.jsonl"


def check_journals() -> None:
    """Check that journals can be written, before the work that they record.

    Raises:
        QuantkitError: their folder cannot be created or written.
    """
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=_folder()):
            pass
    except OSError as error:
        raise _unwritable(_folder(), error) from error


class Journal:
    """Measurements by key, each written to disk at once, as one line of JSON.

    ``resumed`` is the number of measurements when it was opened. Lines from the first damaged one on, such as one
    torn by a crash, are dropped.

    Raises:
        QuantkitError: the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        use(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = read_bytes(path, _LARGEST_FILE) if path.exists() else b""
            self._known, length = _parsed(content)
            if length < len(content):
                with path.open("r+b") as file:
                    file.truncate(length)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.resumed = len(self._known)

    def __contains__(self, what: Sequence[str]) -> bool:
        return tuple(what) in self._known

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(tuple(self._known))

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, what: Sequence[str], measure: Callable[[], Value]) -> Value:
        """The measurement with the key ``what``: that of the journal, or a new one, which is written at once.

        ``measure`` returns a JSON object, and gives the same each time apart from durations.
        """
        if what not in self:
            value = measure()
            line = json.dumps({"what": list(what), "value": value}) + "\n"
            try:
                with self.path.open("ab") as file:
                    file.write(line.encode())
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise _unwritable(self.path, error) from error
            self._known[tuple(what)] = value
        return self._known[tuple(what)]


def _folder() -> Path:
    return home() / "searches"


def _unwritable(path: Path, error: OSError) -> QuantkitError:
    return QuantkitError(
        f"cannot keep the measurements of the search in {path}: {error.strerror or error}; free space or "
        "set QUANTKIT_HOME to a folder that you may write to"
    )


def _parsed(content: bytes) -> tuple[dict[tuple[str, ...], Value], int]:
    """The measurements of the sound lines at the beginning, and their length in bytes."""
    known: dict[tuple[str, ...], Value] = {}
    length = 0
    for line in content.splitlines(keepends=True):
        try:
            entry = parse_json(line)
            what, value = tuple(entry["what"]), dict(entry["value"])
        except (ValueError, KeyError, TypeError):
            break
        if not line.endswith(b"\n") or not what or not all(isinstance(part, str) for part in what):
            break
        known[what] = value
        length += len(line)
    return known, length
