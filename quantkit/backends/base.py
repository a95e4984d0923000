"""What all engines have in common: a backend loads networks, a session is a loaded network."""

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
    """A network, ready to run; one thread at a time may use it, and no process that is forked from this one."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""

    def run(self, inputs: Inputs) -> list[np.ndarray[Any, Any]]:
        """Compute the network's outputs, in the network's order.

        Args:
            inputs: float32 by name; any number of images, which are the first axis of all of them.

        Raises:
            EngineError: the engine cannot run it, the shapes do not fit, or it puts out other than numbers.
            ForkError: this process is a fork of the one that loaded the network.
        """


@dataclass(frozen=True)
class ExecutedLayer:
    """A convolution or dense layer as an engine ran it.

    ``names`` are those of the network's operators that it stands for, as far as the engine tells; ``kernel`` is what
    the engine calls the operator or the kernel that it chose.
    """

    names: frozenset[str]
    kernel: str
    precision: Literal["int8", "fp32"]


class Backend(Protocol[NetworkT]):
    """How an engine is used; the engine's package is imported by the methods, not before.

    ``rewrites`` tells whether the engine rewrites a network before it runs it, so that its layers need not compute in
    the precision that the network says.
    """

    rewrites: ClassVar[bool] = False

    def version(self) -> str:
        """The version of the installed engine.

        Raises:
            EngineMissing: it is not installed.
        """

    def int8_obstacle(self) -> Optional[str]:
        """Why INT8 networks cannot run on this processor, with the remedy; None where they can.

        Raises:
            EngineMissing: the engine is not installed.
        """
        return None

    def open_session(self, network: NetworkT, shapes: Optional[Mapping[str, Shape]] = None) -> Session:
        """Load a network.

        Args:
            network: in the form that the engine reads.
            shapes: of the inputs, by name and with their batch axis: engines that prepare a network for the shapes of
                its inputs do so at once, and not in the first run.

        Raises:
            EngineMissing: the engine is not installed.
            EngineError: it refuses the network.
            ForkError: this process is a fork of one that has used an engine which does not survive that.
        """

    def executed_layers(self, network: NetworkT, inputs: Inputs) -> tuple[ExecutedLayer, ...]:
        """Run a network once and tell which kernels computed its layers; empty where the engine does not rewrite.

        Raises:
            EngineMissing, EngineError, ForkError: see ``open_session`` and ``Session.run``.
        """
        return ()


def sole_input(session: Session) -> str:
    """The name of the one input of a network.

    Raises:
        EngineError: it has none, or several.
    """
    if len(session.inputs) != 1:
        raise EngineError(f"the network has {len(session.inputs)} inputs instead of one; export it again")
    return session.inputs[0]


def arrays(outputs: Iterable[Any]) -> list[np.ndarray[Any, Any]]:
    """What an engine puts out, where that is arrays of numbers.

    Raises:
        EngineError: it is something else, such as texts or sequences.
    """
    found = list(outputs)
    for output in found:
        if not isinstance(output, np.ndarray) or output.dtype.kind not in "biuf":
            kind = output.dtype if isinstance(output, np.ndarray) else type(output).__name__
            raise EngineError(f"the network puts out {kind} instead of numbers; export it again")
    return found


def session_threads() -> int:
    """How many threads a session takes: what OMP_NUM_THREADS asks for, or all usable cores."""
    return read_threads().asked or recommended_threads(read_cpu(), read_limits())
