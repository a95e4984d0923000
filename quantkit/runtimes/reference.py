"""ONNX's own reference evaluator: NumPy, operator by operator as the standard words it; exact and slow."""

from __future__ import annotations

from typing import Any

import numpy as np

from quantkit.errors import EngineError, EngineMissing
from quantkit.runtimes.session import Inputs

# It knows the rounding to integers from opset 19 on, and normalizes batches as it should from 14 on.
_OPSET = 21


def open_session(content: bytes) -> ReferenceSession:
    """Load an ONNX file's bytes.

    Raises:
        EngineMissing: the package onnx is not installed.
    """
    try:
        from onnx import load_model_from_string, version_converter
        from onnx.reference import ReferenceEvaluator
    except ImportError as error:
        raise EngineMissing(
            f"ONNX's reference evaluator cannot be used here ({error}); install it: pip install 'quantkit[onnx]'"
        ) from error
    model = load_model_from_string(content)
    return ReferenceSession(ReferenceEvaluator(version_converter.convert_version(model, _OPSET)))


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
        try:
            return list(self._evaluator.run(None, dict(inputs)))
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            raise EngineError(f"ONNX's reference evaluator cannot run the network: {error}") from error
