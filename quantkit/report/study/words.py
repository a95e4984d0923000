"""Numbers and lists in English."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Optional

from quantkit.benchmark.results.statistics import Ratio

MARK = "\u2020"
LEGEND = (
    f"{MARK} measured with a warning, or a ratio to such a figure: few samples, a speed that was not yet steady, or "
    "other work on the same processors. The error may be larger than the interval; the warnings say why."
)

TIMES = "\u00d7"

_IRREGULAR = {"query": "queries", "box": "boxes"}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def printable(text: str) -> str:
    """A text whose invisible characters, and those that reverse the reading direction, are replaced by U+FFFD."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text.expandtabs(4))


def marked(text: str, doubtful: bool) -> str:
    """A figure, with a mark if it is doubtful; LEGEND explains the mark."""
    return f"{text} {MARK}" if doubtful else text


def shortened(text: str, length: int) -> str:
    """A printable text, cut to ``length`` characters."""
    text = printable(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def plural(noun: str) -> str:
    """A noun in the plural."""
    return _IRREGULAR.get(noun, noun if noun.endswith("s") else noun + "s")


def counted(count: int, noun: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{count} {noun if count == 1 else plural(noun)}"


def listed(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


def drawn_together(texts: Iterable[str], noun: str) -> tuple[str, ...]:
    """Texts, one per ``noun``; those that differ only in numbers are merged: ``0.1 to 0.3 cores (2 cells)``."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(_NUMBER.sub("#", text), []).append(text)
    return tuple(f"{_spanned(alike)} ({counted(len(alike), noun)})" for alike in groups.values())


def _spanned(texts: Sequence[str]) -> str:
    """One text for several that differ in numbers; a number that varies becomes ``2 to 7``."""
    columns = [
        (min(values, key=float), max(values, key=float)) for values in zip(*(_NUMBER.findall(text) for text in texts))
    ]
    filled = iter(low if low == high else f"{low} to {high}" for low, high in columns)
    return _NUMBER.sub(lambda _: next(filled), texts[0])


def number(value: float) -> str:
    """A number with three significant digits, or with all digits before the point."""
    if not math.isfinite(value):
        return "unbounded"
    rounded = float(f"{value:.3g}")
    if rounded == 0 or abs(rounded) >= 100:
        return f"{value:.0f}"
    return f"{rounded:g}" if abs(rounded) < 0.001 else f"{rounded:.{2 - math.floor(math.log10(abs(rounded)))}f}"


def factor(value: float) -> str:
    """A ratio with two decimals, above ten with one."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}"


def span(low: float, high: float) -> str:
    """Two factors, such as ``6.10 to 7.31``, or one if both read the same."""
    ends = factor(low), factor(high)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def bounded(ratio: Ratio) -> bool:
    """Whether a ratio has an interval; from a single round there is none."""
    return math.isfinite(ratio.high)


def ratio_text(ratio: Optional[Ratio], missing: str = "") -> str:
    """A ratio with its interval, and ``not distinguishable`` if that includes 1."""
    if ratio is None:
        return missing
    if not bounded(ratio):
        return f"{factor(ratio.value)} (no interval)"
    doubt = f", {ratio.verdict}" if ratio.verdict == "not distinguishable" else ""
    return f"{factor(ratio.value)} ({factor(ratio.low)} to {factor(ratio.high)}){doubt}"
