"""Numbers with their units, as people read them."""

from __future__ import annotations

import math


def percent(share: float) -> str:
    """A share from 0 to 1 as a percentage; 100 % means every single one."""
    text = f"{100 * share:.1f}"
    return "99.9 %" if text == "100.0" and share < 1 else f"{text} %"


def megabytes(size: int) -> str:
    """A number of bytes in MB (10^6), below 0.1 MB in kB."""
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} kB"


def per_second(rate: float) -> str:
    """A rate without its unit: three digits, or all before the point."""
    return f"{rate:.0f}" if rate >= 100 else f"{rate:.3g}"


def decibels(value: float) -> str:
    """``31.4 dB``, or ``exact`` where nothing deviates."""
    return "exact" if value == math.inf else f"{value:.1f} dB"


def counted(count: int, noun: str) -> str:
    """``1 image``, ``2 images``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
