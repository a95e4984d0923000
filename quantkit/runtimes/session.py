"""Session: an ONNX network that an engine has loaded; and what is known of the layers that it ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from quantkit.errors import EngineError
from quantkit.host.cpu import read_cpu
from quantkit.host.limits import read_limits
from quantkit.host.threads import read_threads, recommended_threads

Inputs = Mapping[str, np.ndarray[Any, Any]]


class Session(Protocol):
    """An ONNX network, ready to run; one thread at a time may use it."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""

    def run(self, inputs: Inputs) -> list[np.ndarray[Any, Any]]:
        """Compute the network's outputs, in the file's order.

        Args:
            inputs: float32 by name; any number of images.

        Raises:
            EngineError: the engine cannot run it, the shapes do not fit, or it puts out other than numbers.
        """


def sole_input(session: Session) -> str:
    """The name of the one input of a network.

    Raises:
        EngineError: it has none, or several.
    """
    if len(session.inputs) != 1:
        raise EngineError(f"the ONNX file has {len(session.inputs)} inputs instead of one; export it again")
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
            raise EngineError(f"the ONNX file puts out {kind} instead of numbers; export it again")
    return found


@dataclass(frozen=True)
class ExecutedLayer:
    """A convolution or dense layer as an engine ran it.

    ``names`` are those of the file's operators that it stands for, as far as the engine tells; ``kernel`` is what the
    engine calls the operator or the kernel that it chose.
    """

    names: frozenset[str]
    kernel: str
    precision: Literal["int8", "fp32"]


def session_threads() -> int:
    """How many threads a session takes: what OMP_NUM_THREADS asks for, as MXNet does, or all usable cores."""
    return read_threads().asked or recommended_threads(read_cpu(), read_limits())
