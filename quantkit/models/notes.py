"""In which way a loaded network differs from the one that was given, in sentences; see ``Model.notes``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Optional

_STATES = "the initial states"


def notes_of(time_major: Optional[str], zero_states: Sequence[str], joined: Collection[str] = ()) -> tuple[str, ...]:
    """The sentences.

    Args:
        time_major: the layout of the given network, if it has steps before the batch.
        zero_states: its inputs that were initial states.
        joined: its inputs, if it has several.
    """
    return (
        *((f"reads batches first, as do its outputs; its own layout is {time_major}",) if time_major else ()),
        *((f"{_STATES} {_listed(zero_states)} are zero",) if zero_states else ()),
        *((f"reads the inputs {_listed(joined)} as one vector until it is deployed",) if joined else ()),
    )


def notes_of_handed_states(notes: Sequence[str], inputs: Sequence[str]) -> tuple[str, ...]:
    """The sentences where initial states are inputs after all; ``inputs`` are their names."""
    others = (note for note in notes if not note.startswith(_STATES))
    return (*others, f"{_STATES} {_listed(inputs)} are inputs, and zero where a sequence begins")


def _listed(names: Collection[str]) -> str:
    return ", ".join(map(repr, names))
