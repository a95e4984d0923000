"""A model as an ONNX file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from quantkit.emission.onnx_float import DEFAULT_OPSET, onnx_model
from quantkit.engine.execute import infer_shapes
from quantkit.files import writing
from quantkit.models.model import Model


def export_onnx(model: Model, path: Path, opset: int = DEFAULT_OPSET) -> None:
    """Write the FP32 network as it was loaded, unfused, with an open batch size.

    The file's metadata say where the network and its weights came from and, as JSON, how images are preprocessed (see
    ``data.preprocess.Preprocess``) and what the classes are called, as far as these are known.

    Raises:
        ModelError: an operator has no ONNX form.
        UserError: the opset is unknown, or the package ``onnx`` is not installed.
        QuantkitError: the file cannot be written.
    """
    known = {
        "network": model.source.network,
        "weights": model.source.weights,
        "weights_location": model.source.location,
        "weights_sha256": model.source.sha256,
        "preprocess": json.dumps(asdict(model.preprocess)) if model.preprocess else "",
        "labels": json.dumps(model.labels) if model.labels else "",
    }
    shapes = infer_shapes(model.graph, dict.fromkeys(model.graph.inputs, (1, *model.input_shape)))
    found = onnx_model(model.graph, shapes, opset, {name: value for name, value in known.items() if value})
    with writing(path) as file:
        file.write(found.SerializeToString())
