"""Untrusted text, JSON and TOML files of bounded size; any damage raises an OSError or a ValueError."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import tomllib
from functools import partial
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

MEBIBYTE = 1 << 20

LARGEST_DOCUMENT = MEBIBYTE
"""Bytes of the largest card, suite, manifest, record or list of labels that quantkit reads."""

# The TOML parser's time grows with the square of a key's parts.
_MANY_PARTS = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){32}""", re.ASCII)


def check_name(path: Path) -> None:
    """Make sure that a file can have this name; the system's calls raise a ValueError otherwise.

    Raises:
        OSError: it holds a NUL character.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a name cannot hold a NUL character", str(path))


def open_ordinary(path: Path) -> io.BufferedReader:
    """Open an ordinary file for reading.

    Raises:
        OSError: the file cannot be read, or is a folder, device, pipe or socket.
    """
    check_name(path)
    # Without O_NONBLOCK, opening a pipe without a writer would wait for ever.
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not an ordinary file", str(path))
    return file


def read_bytes(path: Path, most: int = LARGEST_DOCUMENT) -> bytes:
    """The content of an ordinary file of at most ``most`` bytes.

    Raises:
        OSError: the file cannot be read, is a folder, device, pipe or socket, or is larger.
    """
    with open_ordinary(path) as file:
        size = os.fstat(file.fileno()).st_size
        # A read allocates all that it asks for; the kernel's files have no size.
        blocks = iter(partial(file.read, size + 1 if size else MEBIBYTE), b"")
        content = b"" if size > most else b"".join(islice(blocks, most // MEBIBYTE + 1))
    if max(size, len(content)) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content


def read_text(path: Path, most: int = LARGEST_DOCUMENT) -> str:
    """The text of an ordinary UTF-8 file of at most ``most`` bytes, with or without a byte order mark.

    Raises:
        OSError: see ``read_bytes``.
        ValueError: it is not UTF-8.
    """
    return read_bytes(path, most).decode("utf-8-sig")


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not JSON, nests too deep, has a name twice in one object, or a number that is not finite.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def read_json(path: Path, most: int = LARGEST_DOCUMENT) -> Any:
    """The value of a JSON file.

    Raises:
        OSError: see ``read_bytes``.
        ValueError: see ``read_text`` and ``parse_json``.
    """
    return parse_json(read_text(path, most))


def read_toml(path: Path, most: int = LARGEST_DOCUMENT) -> dict[str, Any]:
    """The table of a TOML file.

    Raises:
        OSError: see ``read_bytes``.
        ValueError: it is not UTF-8 or not TOML, nests too deep, or has keys of more than 32 parts.
    """
    text = read_text(path, most)
    if _MANY_PARTS.search(text):
        raise ValueError("a key has more than 32 parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r} occurs twice")
    return values


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value
