"""Inputs that fuzzing found worth keeping: one file a target, one input a line, in base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpora"

# All targets together stay below a megabyte.
_MOST_CHARACTERS = 60_000


def kept(target: str) -> list[bytes]:
    """The inputs kept for a target."""
    path = FOLDER / f"{target}.txt"
    return [b64decode(line) for line in path.read_text().splitlines()] if path.is_file() else []


def keep(target: str, inputs: Iterable[bytes]) -> None:
    """Keep the smallest of ``inputs``, as many as there is room for."""
    lines: list[str] = []
    left = _MOST_CHARACTERS
    for content in sorted(set(inputs), key=lambda content: (len(content), content)):
        line = b64encode(content).decode()
        left -= len(line) + 1
        if left < 0:
            break
        lines.append(line)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{target}.txt").write_text("".join(f"{line}\n" for line in lines))
