"""In which way a loaded network differs from the one that was given, in sentences; see ``Model.notes``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional


def notes_of(time_major: Optional[str], zero_states: Sequence[str]) -> tuple[str, ...]:
    """The sentences.

    Args:
        time_major: the layout of the given network, if it has steps before the batch.
        zero_states: its inputs that were initial states.
    """
    return (
        *((f"reads batches first, as do its outputs; its own layout is {time_major}",) if time_major else ()),
        *((f"the initial states {', '.join(map(repr, zero_states))} are zero",) if zero_states else ()),
    )
