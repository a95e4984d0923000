"""Telling that other processes disturb the measurement of latencies."""

from __future__ import annotations

import warnings
from typing import Optional

from quantkit.host.cpu import read_cpu
from quantkit.host.load import read_load

BUSY = 0.25
"""From so many cores in use, other processes disturb."""


class BusyWarning(UserWarning):
    """Other processes disturb the measurement of latencies."""


def warn_of_load(advice: str) -> None:
    """Warn if other processes use the processor, or if the system does not tell; ``advice`` ends the warning."""
    load = read_load(read_cpu().usable)
    if load is None:
        warnings.warn(
            "the system does not tell whether other processes use the processor (/proc/stat): make sure that none "
            "does, or the milliseconds, and so the choice of layers, are unreliable",
            BusyWarning,
            stacklevel=4,
        )
    elif load.busy > BUSY:
        warnings.warn(
            f"other processes use {load.busy:.1f} of the processor's cores: milliseconds measured now, and so the "
            f"choice of layers, are unreliable; {advice}",
            BusyWarning,
            stacklevel=4,
        )


def warn_of_disturbance(busy: Optional[float], what: str, advice: str) -> None:
    """Warn if other processes used the processor while ``what`` was measured; ``busy`` is in cores."""
    if busy is not None and busy > BUSY:
        warnings.warn(
            f"other processes used {busy:.1f} of the processor's cores while {what} was measured, so it is unreliable; "
            f"{advice}",
            BusyWarning,
            stacklevel=4,
        )
