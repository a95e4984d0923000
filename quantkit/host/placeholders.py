"""Placeholders for private parts of results' texts: folders, the host's name, the user's name.

====================  ==========================================================
``$QUANTKIT_HOME``    the folder of builds, downloads and kept networks
``$QUANTKIT``         the checkout or the folder that quantkit is installed in
``$TMPDIR``           the folder of temporary files
``~``                 the user's home
``$HOST``, ``$USER``  the host's name, and the user's as a part of a path
``…/NAME``            a file or folder NAME anywhere else, except in the system's folders
====================  ==========================================================
"""

from __future__ import annotations

import dataclasses
import getpass
import os
import re
import shlex
import socket
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from quantkit.files import files

# Folders of every system, which reveal nothing about its user.
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr")

_PATH = re.compile(r"(?<![\w.~$…/+-])/(?:[^\s/'\"`:;,()\[\]{}<>|=]+/)*[^\s/'\"`:;,()\[\]{}<>|=]+")


def hidden(text: str) -> str:
    """A text with placeholders."""
    text = files.as_text(text)
    for path, placeholder in _folders():
        text = placeholder.join(re.split(rf"{re.escape(path)}(?=/|[^\w.-]|$)", text))
    text = _PATH.sub(lambda match: _shortened(match[0]), text)
    for pattern, placeholder in _names():
        text = placeholder.join(pattern.split(text))
    return text


def command(program: str, arguments: Sequence[str]) -> str:
    """A command with placeholders, to be read, not run; arguments with blanks are quoted."""
    shown = [_argument(each) for each in arguments]
    return " ".join([program, *(each if re.fullmatch(r"[^\s'\"]+", each) else shlex.quote(each) for each in shown)])


def _argument(text: str) -> str:
    name, equals, value = text.rpartition("=")
    if not os.path.isabs(value):
        return hidden(text)
    shown = hidden(value)
    # In a text, a blank would end the path.
    return name + equals + (_shortened(value) if shown.startswith("…") else shown)


def recorded(value: Any, kept: frozenset[str] = frozenset()) -> Any:
    """A value of dataclasses, mappings and sequences with placeholders in all its texts.

    Fields and keys named in ``kept`` hold names that other parts refer to, and do not change.
    """
    if isinstance(value, str):
        return hidden(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value) if each.init}
        return dataclasses.replace(value, **_values(fields, kept))
    if isinstance(value, Mapping):
        return _values(value, kept)
    if isinstance(value, (tuple, list)):
        return type(value)(recorded(each, kept) for each in value)
    return value


def _values(value: Mapping[str, Any], kept: frozenset[str]) -> dict[str, Any]:
    return {name: each if name in kept else recorded(each, kept) for name, each in value.items()}


def _shortened(path: str) -> str:
    inside = any(path == folder or path.startswith(f"{folder}/") for folder in _SYSTEM)
    return path if inside else f"…/{os.path.basename(path)}"


def _folders() -> list[tuple[str, str]]:
    """Folders with their placeholders, the longest first, by their absolute and by their real paths."""
    known = {
        "$QUANTKIT_HOME": files.home(),
        "$QUANTKIT": Path(files.__file__).resolve().parents[2],
        "$TMPDIR": Path(tempfile.gettempdir()),
        "~": Path(os.path.expanduser("~")),
    }
    placeholders = {
        form: placeholder
        for placeholder, path in reversed(known.items())
        for form in (os.path.abspath(path), os.path.realpath(path))
        if form != "/"
    }
    return sorted(placeholders.items(), key=lambda each: -len(each[0]))


@cache
def _names() -> tuple[tuple[re.Pattern[str], str], ...]:
    host = socket.gethostname()
    short = host.partition(".")[0]
    hosts = [rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in (host, short) if name and short != "localhost"]
    try:
        user = re.escape(getpass.getuser())
    except (OSError, KeyError):  # a process of an unknown user
        user = ""
    users = [rf"(?<=/){user}(?=/|$)", rf"(?<![\w-]){user}(?=@)"] if user else []
    pairs = [*((each, "$HOST") for each in hosts), *((each, "$USER") for each in users)]
    return tuple((re.compile(pattern), placeholder) for pattern, placeholder in pairs)
