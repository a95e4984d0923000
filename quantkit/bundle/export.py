"""Exporting networks as ONNX files: FP32 networks as loaded, INT8 networks with their integers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.card import told_corners
from quantkit.bundle.manifest import Settings
from quantkit.bundle.read import read_bundle
from quantkit.errors import UserError
from quantkit.files.files import writing
from quantkit.formats.onnx.writing.model import onnx_model
from quantkit.fusion.float_symbol import float_graph
from quantkit.lowering.onnx_lstm import LstmForm
from quantkit.lowering.qdq import qdq_network
from quantkit.models.model import Model
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.reduced_range import ReduceRange

if TYPE_CHECKING:
    from onnx import ModelProto


@dataclass(frozen=True)
class Exported:
    """What an ONNX file that was written holds.

    Attributes:
        opset: the version of ONNX's operators.
        plan: what the network's fused operators became; None for a network as it was loaded.
    """

    opset: int
    plan: Optional[QuantizationPlan] = None


def export_onnx(model: Model, path: Path, opset: Optional[int] = None) -> Exported:
    """Write the FP32 network as it was loaded, unfused, with an open batch size.

    As far as they are known, the file's metadata hold the origin of the network and its weights and, as JSON, the
    preprocessing of images (see ``data.preprocess.Preprocess``) and the names of the classes, and what the network is
    for, if that is not classification.

    Raises:
        ModelError: an operator has no ONNX form.
        UserError: the opset is unknown, or the package ``onnx`` is not installed.
        QuantkitError: the file cannot be written.
    """
    shapes = infer_shapes(model.graph, dict.fromkeys(model.graph.inputs, (1, *model.input_shape)))
    written = onnx_model(model.deployed.network(model.graph), shapes, opset, _metadata(model))
    return Exported(_write(written, path))


def int8_onnx(
    model: Model,
    network: QuantizedGraph,
    settings: Optional[Settings],
    opset: Optional[int] = None,
    reduce_range: ReduceRange = "none",
    lstm: LstmForm = "qdq",
) -> bytes:
    """An INT8 network in ONNX's QDQ form, with an open batch size; see ``lowering.qdq``.

    Args:
        model: the network that was quantized, for its input and its provenance.
        network: the quantized network.
        settings: how it was quantized, for the file's metadata; None if that is not known.
        opset: the version of ONNX's operators, 13 to 21; None for the oldest that has all of the network's.
        reduce_range: which weights get fewer than 8 bits; see ``quantization.reduced_range``.
        lstm: the form of INT8 LSTM layers; see ``lowering.onnx_lstm``.

    Raises:
        ModelError: an operator has no ONNX form.
        UserError: the opset or the form is unknown, or the package ``onnx`` is not installed.
    """
    return bytes(_fused_onnx(model, settings, network, opset, reduce_range, lstm).SerializeToString())


def export_int8_onnx(
    bundle: Union[Bundle, str, Path],
    path: Path,
    opset: Optional[int] = None,
    reduce_range: ReduceRange = "none",
    lstm: LstmForm = "qdq",
) -> Exported:
    """Write a bundle's INT8 network as an ONNX file; see ``int8_onnx``.

    Raises:
        BundleError: the bundle is damaged.
        ModelError: an operator has no ONNX form.
        UserError: the bundle holds no INT8 network, the opset or the form of LSTM layers is unknown, or the package
            ``onnx`` is not installed.
        QuantkitError: the file cannot be written.
    """
    opened = bundle if isinstance(bundle, Bundle) else read_bundle(bundle)
    check_int8_bundle(opened)
    network = opened.network
    written = _fused_onnx(opened.model, opened.manifest.settings, network, opset, reduce_range, lstm)
    return Exported(_write(written, path), network.plan)


def check_int8_bundle(bundle: Bundle) -> None:
    """Make sure that a bundle holds an INT8 network.

    Raises:
        UserError: it holds an FP32 network.
    """
    if bundle.manifest.kind != "int8":
        raise UserError(f"{bundle.directory} holds an FP32 network; give a bundle that `quantkit quantize` wrote")


def export_fused_onnx(bundle: Union[Bundle, str, Path], path: Path, opset: Optional[int] = None) -> Exported:
    """Write a bundle's network in FP32: its fused operators, with the bundle's weights.

    The weights of an INT8 bundle are those that the algorithms adapted to rounding.

    Raises:
        BundleError, ModelError, UserError, QuantkitError: see ``export_int8_onnx``.
    """
    opened = bundle if isinstance(bundle, Bundle) else read_bundle(bundle)
    network = opened.network
    decisions = {name: replace(each, precision="fp32", reason="") for name, each in network.plan.decisions.items()}
    floats = replace(network, plan=QuantizationPlan(decisions, {}))
    return Exported(_write(_fused_onnx(opened.model, opened.manifest.settings, floats, opset), path), floats.plan)


def _fused_onnx(
    model: Model,
    settings: Optional[Settings],
    network: QuantizedGraph,
    opset: Optional[int],
    reduce_range: ReduceRange = "none",
    lstm: LstmForm = "qdq",
) -> ModelProto:
    graph = network.graph
    shapes = infer_shapes(float_graph(graph), dict.fromkeys(graph.inputs, (1, *model.input_shape)))
    written = qdq_network(network, shapes, reduce_range, lstm)
    known = {"quantization": json.dumps(asdict(settings)), "reduce_range": reduce_range} if settings else {}
    if network.int8_lstms:
        known = {**known, "lstm": lstm}
    return onnx_model(model.deployed.network(written.graph), written.shapes, opset, {**_metadata(model), **known})


def _metadata(model: Model) -> Mapping[str, str]:
    """What is known of a network's origin, its preprocessing, its labels, what it is for, and its boxes."""
    known = {
        "network": model.source.network,
        "weights": model.source.weights,
        "weights_location": model.source.location,
        "weights_sha256": model.source.sha256,
        "preprocess": json.dumps(asdict(model.preprocess)) if model.preprocess else "",
        "labels": json.dumps(model.labels) if model.labels else "",
        "task": model.task if model.task not in (None, "classification") else "",
        "box_corners": told_corners(model) or "",
    }
    return {name: value for name, value in known.items() if value}


def _write(model: ModelProto, path: Path) -> int:
    """Returns the version of ONNX's operators."""
    with writing(path) as file:
        file.write(model.SerializeToString())
    return next(int(each.version) for each in model.opset_import if not each.domain)
