"""The interface of all engines: a backend loads networks, a session is a loaded network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Optional, Protocol, TypeVar

import numpy as np

from quantkit.errors import EngineError
from quantkit.host.cpu import read_cpu
from quantkit.host.limits import read_limits
from quantkit.host.threads import read_threads, recommended_threads

Inputs = Mapping[str, np.ndarray[Any, Any]]
Shape = tuple[int, ...]

NetworkT = TypeVar("NetworkT", contravariant=True)


class Session(Protocol):
    """A network, ready to run; one thread at a time may use it, and no forked process may."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""

    def run(self, inputs: Inputs) -> list[np.ndarray[Any, Any]]:
        """Compute the network's outputs, in the network's order.

        Args:
            inputs: float32 by name, tokens included (MXNet also takes integers of an input that the network only
                quantizes); the first axis of each is the batch, of any size.

        Raises:
            EngineError: the engine cannot run it, the shapes do not fit, or an output does not hold numbers.
            ForkError: this process is a fork of the one that loaded the network.
        """


@dataclass(frozen=True)
class ExecutedLayer:
    """A convolution or dense layer as an engine ran it.

    ``names`` are those of the network's operators that it stands for, as far as the engine reports them; ``kernel`` is
    the engine's name of the operator or the kernel that it chose.
    """

    names: frozenset[str]
    kernel: str
    precision: Literal["int8", "fp32"]


class Backend(Protocol[NetworkT]):
    """An engine; only its methods import the engine's package.

    ``rewrites`` is whether the engine rewrites a network before it runs it, so that layers may compute in another
    precision than the network's; ``has_streams`` whether it runs a network several times at once in one process.
    """

    rewrites: ClassVar[bool] = False
    has_streams: ClassVar[bool] = False

    def version(self) -> str:
        """The version of the installed engine.

        Raises:
            EngineMissing: it is not installed.
        """

    def int8_obstacle(self) -> Optional[str]:
        """Why INT8 networks cannot run on this processor, with the remedy; None if they can.

        Raises:
            EngineMissing: the engine is not installed.
        """
        return None

    def open_session(self, network: NetworkT, shapes: Optional[Mapping[str, Shape]] = None) -> Session:
        """Load a network.

        Args:
            network: in the form that the engine reads.
            shapes: of the inputs, by name and with their batch axis. With them, engines that prepare a network for
                the shapes of its inputs do so at once instead of in the first run.

        Raises:
            EngineMissing: the engine is not installed.
            EngineError: the engine does not accept the network.
            ForkError: this process is a fork of one that has used an engine that does not survive a fork.
        """

    def open_streams(self, network: NetworkT, number: int, threads: int) -> list[Session]:
        """Load a network that runs ``number`` times at once, each time with so many threads; weights are shared.

        Returns:
            A session for each, which may run at the same time as the others.

        Raises:
            EngineError: the engine does not accept the network, or cannot do so.
            EngineMissing, ForkError: see ``open_session``.
        """
        raise EngineError("this engine runs a network once at a time in a process; use instances")

    def executed_layers(self, network: NetworkT, inputs: Inputs) -> tuple[ExecutedLayer, ...]:
        """Run a network once and list the kernels that computed its layers; empty if the engine does not rewrite.

        Raises:
            EngineMissing, EngineError, ForkError: see ``open_session`` and ``Session.run``.
        """
        return ()


def sole_input(session: Session) -> str:
    """The name of a network's only input.

    Raises:
        EngineError: the network does not have exactly one input.
    """
    if len(session.inputs) != 1:
        raise EngineError(f"the network has {len(session.inputs)} inputs instead of one; export it again")
    return session.inputs[0]


def arrays(outputs: Iterable[Any]) -> list[np.ndarray[Any, Any]]:
    """An engine's outputs, checked to be arrays of numbers.

    Raises:
        EngineError: one is something else, such as texts or a sequence.
    """
    checked = list(outputs)
    for output in checked:
        if not isinstance(output, np.ndarray) or output.dtype.kind not in "biuf":
            kind = output.dtype if isinstance(output, np.ndarray) else type(output).__name__
            raise EngineError(f"the network computes {kind} instead of numbers; export it again")
    return checked


def session_threads() -> int:
    """The number of threads of a session: OMP_NUM_THREADS, or all usable cores."""
    return read_threads().asked or recommended_threads(read_cpu(), read_limits())
