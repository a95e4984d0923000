"""The states that a caller hands on from one piece of its sequences to the next, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quantkit.errors import DataError
from quantkit.ir.handed_states import HandedState, zeros_of

States = Mapping[str, np.ndarray]
"""By the name of its input, what each sequence's next piece begins with, float32 (sequences, layers, units)."""


def checked_states(given: Any, wanted: Sequence[HandedState], sequences: int) -> States:
    """States for so many sequences, float32; zeros where ``given`` is None.

    Raises:
        DataError: a state is missing, has another shape or holds no finite numbers, or there is one more.
    """
    if given is None:
        return zeros_of(wanted, sequences)
    names = {state.input for state in wanted}
    if not isinstance(given, Mapping):
        raise DataError(f"the states are a {type(given).__name__}; give what the step before returned, or None")
    if unknown := sorted(map(str, given.keys() - names)):
        raise DataError(f"the network has no state {unknown[0]!r}; it has {', '.join(map(repr, sorted(names)))}")
    return {state.input: _checked(given.get(state.input), state, sequences) for state in wanted}


def _checked(values: Any, state: HandedState, sequences: int) -> np.ndarray:
    if values is None:
        raise DataError(
            f"the state {state.input!r} is missing; give what the step before returned, or no states at all"
        )
    shape = (sequences, *state.shape)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"the state {state.input!r} forms no array ({error}); give float32 of shape {shape}") from error
    if array.shape != shape or array.dtype.kind != "f":
        raise DataError(
            f"the state {state.input!r} is {array.dtype} of shape {array.shape}, and needs float32 of shape {shape}: "
            "(sequences, layers, units)"
        )
    # What is beyond float32 becomes infinite.
    with np.errstate(over="ignore"):
        array = array.astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        raise DataError(f"the state {state.input!r} holds NaN or infinite values; give what the step before returned")
    return array
