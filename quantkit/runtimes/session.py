"""Session: an ONNX network that an engine has loaded; and what is known of the layers that it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

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
            EngineError: the engine cannot run it, or the shapes do not fit.
        """


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
