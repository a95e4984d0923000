"""ONNX files with another constant, for tests of who finds the difference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from quantkit.diagnosis.parity.onnx_file import OnnxFile


def with_changed(file: OnnxFile, name: str, change: Callable[[np.ndarray], np.ndarray]) -> OnnxFile:
    """The file with another constant."""
    from onnx import ModelProto, numpy_helper

    model = ModelProto()
    model.CopyFrom(file.model)
    (constant,) = (each for each in model.graph.initializer if each.name == name)
    constant.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(constant)), name))
    return OnnxFile(model)
