"""The code in README.md and in the pages of docs/: what a reader would run, block by block."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs" / "pages").rglob("*.md")))

LANGUAGES = frozenset({"console", "python", "toml", "yaml", "text"})
"""What a block may be marked as. Blocks of ``text`` are for reading alone."""

_FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>[^>]+?) -->\n\s*\Z")
_GIVEN = re.compile(r"<!-- given: (?P<names>[^>]+?) -->")
_FIGURE = re.compile(r"[-+]?\d+(?:[.,]\d+)*")


@dataclass(frozen=True)
class Snippet:
    """A block of code: its language, its text, and where it stands. ``not_run`` is the reason why tests leave it."""

    page: str
    line: int
    language: str
    text: str
    not_run: Optional[str]

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines of its output that the page shows."""

    arguments: tuple[str, ...]
    output: tuple[str, ...]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets(page: Path) -> list[Snippet]:
    """The blocks of a page, in their order."""
    return list(read_snippets(page.read_text(encoding="utf-8"), name_of(page)))


def read_snippets(text: str, page: str) -> Iterator[Snippet]:
    for block in _FENCE.finditer(text):
        marked = _NOT_RUN.search(text, 0, block.start())
        line = text.count("\n", 0, block.start()) + 1
        yield Snippet(page, line, block["language"], block["text"], marked["reason"] if marked else None)


def given(page: Path) -> tuple[str, ...]:
    """The files that a page takes as there already, by their names in ``conftest.py``."""
    marked = _GIVEN.search(page.read_text(encoding="utf-8"))
    return tuple(marked["names"].split()) if marked else ()


def commands(text: str) -> list[Command]:
    """The commands of a console block: lines that begin with a dollar sign, each with the lines up to the next."""
    found: list[Command] = []
    for line in filter(str.strip, text.splitlines()):
        if line.startswith("$ "):
            found.append(Command(tuple(shlex.split(line[2:], comments=True)), ()))
        elif found:
            found[-1] = Command(found[-1].arguments, (*found[-1].output, line))
        else:
            raise ValueError(f"a console block begins with {line!r}; a command begins with '$ '")
    return found


def shows(shown: tuple[str, ...], printed: str) -> bool:
    """Whether lines on a page are what a command printed, but for figures; ``...`` stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(_plain(line)) + "\n" for line in shown)
    lines = "".join(_plain(line) + "\n" for line in printed.splitlines() if line.strip())
    return re.search(rf"^{pattern}", lines, re.MULTILINE) is not None


def _plain(line: str) -> str:
    return _FIGURE.sub("#", " ".join(line.split()))
