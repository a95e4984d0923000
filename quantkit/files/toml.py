"""Writing TOML: values, and documents of keys and tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Union

_BARE = re.compile(r"[A-Za-z0-9_-]+")

Value = Union[str, int, float, bool, Iterable["Value"]]


def toml_value(value: Value) -> str:
    """A value as TOML writes it: a string, a number, true or false, or an array of such values."""
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one control character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return f"[{', '.join(map(toml_value, value))}]"


def toml_text(entries: Mapping[str, Value], tables: Mapping[str, Mapping[str, Value]]) -> str:
    """A document of entries, and of tables by their names; a table without entries is left out."""
    blocks = [_lines(entries), *(f"[{name}]\n{_lines(table)}" for name, table in tables.items() if table)]
    return "\n".join(block for block in blocks if block)


def _lines(entries: Mapping[str, Value]) -> str:
    return "".join(f"{_key(key)} = {toml_value(value)}\n" for key, value in entries.items())


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_value(name)
