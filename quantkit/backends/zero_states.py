"""Networks with states among their inputs, as networks that begin at zero in every run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.backends.base import Inputs, Session
from quantkit.ir.handed_states import HandedState, zeros_of


class SessionFromZero(Session):
    """A network whose states are zero; its other inputs are all that it reads."""

    def __init__(self, session: Session, states: Sequence[HandedState]) -> None:
        self._session, self._states = session, states

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs besides its states."""
        states = {state.input for state in self._states}
        return tuple(name for name in self._session.inputs if name not in states)

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``Session``."""
        batch = len(next(iter(inputs.values())))
        return self._session.run({**inputs, **zeros_of(self._states, batch)})


def from_zero(session: Session, states: Sequence[HandedState]) -> Session:
    """The session of a network that may have states."""
    return SessionFromZero(session, states) if states else session
