"""Summaries of fused and quantized networks, with their measurements, for the command line to show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Optional

from quantkit.backends.mxnet.kernels import Kernel, int8_isa, int8_share, kernels_of
from quantkit.bundle.card import told_task
from quantkit.bundle.file_names import ONNX, PARAMS, SYMBOL
from quantkit.bundle.latency import Latency
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.data.left_out import documents
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph

Summary = dict[str, Any]

_LAYERS = ("Convolution", "FullyConnected", "LSTM", "GRU", "RNN")

TableOrigin = Literal["measured", "given", "shipped"]
"""The origin of a calibration table: this run, the user, or the tables that ship with quantkit."""


def measured_kernels(bundle: Path, quantized: QuantizedModel) -> tuple[Kernel, ...]:
    """The kernels that the engine runs for the checkpoint in a bundle."""
    model = quantized.source.model
    (name,) = model.graph.inputs
    shapes = model.deployed.shapes(name, model.input_shape).values()
    return kernels_of(*_checkpoint(bundle), *(shape[1:] for shape in shapes))


def _checkpoint(bundle: Path) -> tuple[Path, Path]:
    """The symbol and the parameters in a bundle."""
    return bundle / SYMBOL, bundle / PARAMS


def _operators(source: FusedModel) -> dict[str, int]:
    """How many operators a network has, unfused and fused; those that stand for inputs do not count."""
    inputs = source.model.standing_for_inputs
    graphs = {"original": source.fused.original, "fused": source.fused.graph}
    return {form: sum(node.name not in inputs for node in graph.nodes) for form, graph in graphs.items()}


def _parameter_bytes(graph: Graph) -> int:
    """The size of a network's parameters."""
    return sum(value.nbytes for value in graph.params.values())


def quantize_summary(
    quantized: QuantizedModel,
    bundle: Path,
    kernels: tuple[Kernel, ...],
    latency: Optional[Latency],
    calibrated: TableOrigin,
    data: str,
) -> Summary:
    """The summary of an INT8 network whose bundle was written, as JSON values.

    Sizes are in bytes, latencies in ms, shares from 0 to 1. ``data`` is the name of the images that the algorithms and
    the comparison with FP32 used.
    """
    source, table, onnx, agreement = quantized.source, quantized.table, bundle / ONNX, quantized.agreement
    inputs = source.model.standing_for_inputs
    decisions = [each for name, each in quantized.plan.decisions.items() if name not in inputs]
    int8 = Counter(decision.operator for decision in decisions if decision.is_int8)
    fp32 = Counter((decision.operator, decision.reason) for decision in decisions if not decision.is_int8)
    proven, calls = int8_share(kernels)
    return {
        "model": source.model.name,
        "bundle": str(bundle),
        "weights": {"kind": source.model.source.weights, "location": source.model.source.location},
        "operators": _operators(source),
        "int8": dict(int8.most_common()),
        "fp32": [
            {"operator": operator, "reason": reason, "count": count} for (operator, reason), count in fp32.most_common()
        ],
        "kernels": {"isa": list(int8_isa(kernels)), "int8": proven, "of": calls},
        "size": {
            "fp32": _parameter_bytes(source.model.graph),
            "int8": _checkpoint(bundle)[1].stat().st_size,
            "in_fp32": list(_stored_in_fp32(quantized.network)),
        },
        "onnx": {"file": str(onnx), "size": onnx.stat().st_size} if onnx.exists() else None,
        "calibration": {
            "method": table.method,
            "samples": table.samples,
            "data": table.data_name,
            "origin": calibrated,
        },
        "data": data,
        "left_out": documents(quantized.left_out),
        "algorithms": asdict(quantized.algorithms),
        "task": told_task(source.model.task),
        "class_scores": asdict(source.class_scores),
        **({"step_scores": asdict(source.step_scores)} if source.step_scores is not None else {}),
        "agreement": {"samples": agreement.images, **agreement.document} if agreement is not None else None,
        "latency_ms": None if latency is None else dict(latency.milliseconds),
        "speed": None if latency is None else _speed(latency),
        "never_slower": None if quantized.speed is None else asdict(quantized.speed),
    }


def _speed(latency: Latency) -> Summary:
    return {**asdict(latency.ratio), "reference": latency.reference, "verdict": latency.ratio.verdict}


def _stored_in_fp32(network: QuantizedGraph) -> Iterator[str]:
    """The kinds of INT8 layers whose weights the checkpoint has in FP32, since MXNet rounds them itself."""
    dense = [layer for layer in network.int8_layers if not layer.is_convolution]
    if len(dense) < len(network.int8_layers):
        yield "convolutions"
    if any(network.computes_integers(layer.node) for layer in dense):
        yield "dense layers"
    if network.int8_lstms:
        yield "LSTM layers"


def fuse_summary(source: FusedModel, bundle: Path, milliseconds: Optional[Mapping[str, float]]) -> Summary:
    """The summary of a fused network, as JSON values; latencies in ms."""
    applied = Counter(step.rule for step in source.fused.applied)
    return {
        "model": source.model.name,
        "bundle": str(bundle),
        "weights": {"kind": source.model.source.weights, "location": source.model.source.location},
        "operators": _operators(source),
        "applied": dict(applied),
        "rejected": [
            {"rule": rejection.rule, "node": rejection.node, "reason": rejection.reason}
            for rejection in source.fused.rejected
        ],
        "class_scores": asdict(source.class_scores),
        "check": {
            "samples": source.check.samples,
            "difference": source.check.difference,
            "changed_predictions": source.check.changed_predictions,
        },
        "latency_ms": dict(milliseconds) if milliseconds else None,
    }


def export_summary(
    file: Path, precision: str, opset: int, reduce_range: str, plan: Optional[QuantizationPlan], lstm: str = "qdq"
) -> Summary:
    """The summary of a network that was written as an ONNX file, as JSON values.

    Args:
        file: the file.
        precision: ``int8`` or ``fp32``.
        opset: the version of ONNX's operators.
        reduce_range: see ``quantization.reduced_range``.
        plan: what became of the network's operators; None for a network without one.
        lstm: the form of INT8 LSTM layers; see ``lowering.onnx_lstm``.

    Returns:
        ``size`` in bytes, counts of operators in ``int8``, names in ``fp32_layers``; ``lstm`` is None without INT8 LSTM
        layers.
    """
    decisions = list(plan.decisions.values()) if plan is not None else []
    has_lstm = precision == "int8" and any(each.is_int8 and each.operator == "LSTM" for each in decisions)
    return {
        "file": str(file),
        "precision": precision,
        "opset": opset,
        "reduce_range": reduce_range,
        "lstm": lstm if has_lstm else None,
        "size": file.stat().st_size,
        "int8": dict(Counter(each.operator for each in decisions if each.is_int8).most_common()),
        "fp32_layers": [
            each.node
            for each in decisions
            if precision == "int8" and not each.is_int8 and each.operator.startswith(_LAYERS)
        ],
    }
