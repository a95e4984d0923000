"""Deployed networks with states or several inputs, as networks with the one input that they were measured with."""

from __future__ import annotations

import numpy as np

from quantkit.backends.base import Inputs, Session
from quantkit.ir.deployed_form import DeployedForm

_VECTOR = "inputs"


class SessionWithOneInput(Session):
    """A network whose states are zero in every run, and whose several inputs come as one vector."""

    def __init__(self, session: Session, deployed: DeployedForm) -> None:
        self._session, self._deployed = session, deployed

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs besides its states, or one for the vector of all of them."""
        others = {state.input for state in self._deployed.states} | set(self._deployed.joined)
        return ((_VECTOR,) if self._deployed.joined else ()) + tuple(
            name for name in self._session.inputs if name not in others
        )

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``Session``."""
        ((name, batch),) = inputs.items()
        return self._session.run(self._deployed.values(name, batch))


def with_one_input(session: Session, deployed: DeployedForm) -> Session:
    """The session of a network that may have states or several inputs."""
    return SessionWithOneInput(session, deployed) if deployed.states or deployed.joined else session
