"""ONNX's own reference evaluator: NumPy, operator by operator as the standard words it; exact and slow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from quantkit.errors import EngineError, EngineMissing
from quantkit.extras import using
from quantkit.runtimes.session import Inputs, arrays

# It knows the rounding to integers from opset 19 on, and normalizes batches as it should from 14 on.
_OPSET = 21


def open_session(content: bytes) -> ReferenceSession:
    """Load an ONNX file's bytes.

    Raises:
        EngineMissing: the package onnx is not installed.
        EngineError: it refuses the network.
    """
    with using("onnx", "networks in ONNX's reference evaluator", EngineMissing):
        from onnx import load_model_from_string, version_converter
        from onnx.reference import ReferenceEvaluator
    with _errors("load the network"):
        model = version_converter.convert_version(load_model_from_string(content), _OPSET)
        return ReferenceSession(ReferenceEvaluator(model))


class ReferenceSession:
    """A ``session.Session`` of the reference evaluator."""

    def __init__(self, evaluator: Any) -> None:
        self._evaluator = evaluator

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return tuple(self._evaluator.input_names)

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``session.Session``."""
        with _errors("run the network"):
            outputs = self._evaluator.run(None, dict(inputs))
        return arrays(outputs)


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its operators raise what NumPy and Python do
        raise EngineError(f"ONNX's reference evaluator cannot {what}: {error or type(error).__name__}") from error
