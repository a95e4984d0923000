"""ONNX's reference evaluator: NumPy, operator by operator after the standard's text; exact and slow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np

from quantkit.backends.base import Backend, Inputs, Session, Shape, arrays
from quantkit.backends.registry import REFERENCE
from quantkit.errors import EngineError

# It supports rounding to integers from opset 19 on, and computes batch normalization correctly from 14 on.
_OPSET = 21

# The number of the type int64 in ONNX.
_INT64 = 7


class ReferenceBackend(Backend[bytes]):
    """ONNX's reference evaluator, which computes exactly the operators of the file."""

    def version(self) -> str:
        """The version of the package onnx; see ``Backend``."""
        return REFERENCE.installed_version()

    def open_session(self, network: bytes, shapes: Optional[Mapping[str, Shape]] = None) -> ReferenceSession:
        """Load an ONNX file's bytes; see ``Backend``."""
        onnx = REFERENCE.library()
        from onnx import version_converter
        from onnx.reference import ReferenceEvaluator

        with _errors("load the network"):
            model = version_converter.convert_version(onnx.load_model_from_string(network), _OPSET)
            return ReferenceSession(ReferenceEvaluator(model))


class ReferenceSession(Session):
    """A network in the reference evaluator."""

    def __init__(self, evaluator: Any) -> None:
        self._evaluator = evaluator
        tokens = (name for name, kind in zip(evaluator.input_names, evaluator.input_types) if _is_tokens(kind))
        self._tokens = frozenset(tokens)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return tuple(self._evaluator.input_names)

    def run(self, inputs: Inputs) -> list[np.ndarray]:
        """See ``Session``."""
        with _errors("run the network"):
            given = {name: value.astype(np.int64) if name in self._tokens else value for name, value in inputs.items()}
            outputs = self._evaluator.run(None, given)
        return arrays(outputs)


def _is_tokens(kind: Any) -> bool:
    """Whether an input's ``TypeProto`` is of int64."""
    return bool(kind.tensor_type.elem_type == _INT64)


@contextmanager
def _errors(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its operators raise NumPy's and Python's exceptions
        raise EngineError(f"ONNX's reference evaluator cannot {what}: {error or type(error).__name__}") from error
