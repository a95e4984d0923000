"""Telling that other processes disturb the measurement of latencies."""

from __future__ import annotations

import warnings

from quantkit.host.cpu import read_cpu
from quantkit.host.load import read_load

# In cores.
_BUSY = 0.25


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
    elif load.busy > _BUSY:
        warnings.warn(
            f"other processes use {load.busy:.1f} of the processor's cores: milliseconds measured now, and so the "
            f"choice of layers, are unreliable; {advice}",
            BusyWarning,
            stacklevel=4,
        )
