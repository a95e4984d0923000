"""The short table at the end of ``quantize`` and ``fuse``: measured first, then put into words."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from quantkit.units import images, megabytes

if TYPE_CHECKING:
    from quantkit.engine.kernels import Kernel
    from quantkit.evaluation.agreement import Agreement
    from quantkit.graph.graph import Graph
    from quantkit.pipeline import QuantizedModel
    from quantkit.stages.fuse import FusedModel

Result = dict[str, Any]


def latencies(source: FusedModel, int8: Optional[Graph] = None) -> dict[str, float]:
    """Median latency in ms at batch 1 of the network unfused, fused, and in INT8 if given, in one interleaved run."""
    from quantkit.evaluation.latency import median_latencies

    networks = {"fp32": source.model.graph, "fp32_fused": source.graph}
    if int8 is not None:
        networks["int8"] = int8
    return median_latencies(networks, source.sample)


def measured_kernels(bundle: Path, quantized: QuantizedModel) -> tuple[Kernel, ...]:
    """The kernels that the engine runs for the checkpoint in a bundle."""
    from quantkit.engine.kernels import kernels_of

    return kernels_of(*checkpoint(bundle), quantized.source.model.input_shape)


def checkpoint(bundle: Path) -> tuple[Path, Path]:
    """The symbol and the parameters in a bundle."""
    return bundle / "model-symbol.json", bundle / "model-0000.params"


def parameter_bytes(graph: Graph) -> int:
    """The size of a network's parameters."""
    return sum(value.nbytes for value in graph.params.values())


def quantize_result(
    quantized: QuantizedModel, out: Path, kernels: tuple[Kernel, ...], milliseconds: Optional[Mapping[str, float]]
) -> Result:
    """All that ``quantize`` has to tell, as JSON's own types. Sizes in bytes, latency in ms, shares from 0 to 1."""
    from quantkit.bundle.manifest import ONNX
    from quantkit.engine.kernels import int8_isa, int8_share

    source, table, onnx, agreement = quantized.source, quantized.table, out / ONNX, quantized.agreement
    decisions = quantized.plan.decisions.values()
    int8 = Counter(decision.operator for decision in decisions if decision.is_int8)
    fp32 = Counter((decision.operator, decision.reason) for decision in decisions if not decision.is_int8)
    proven, calls = int8_share(kernels)
    return {
        "model": source.model.name,
        "bundle": str(out),
        "weights": {"kind": source.model.source.weights, "location": source.model.source.location},
        "operators": {"original": len(source.fused.original.nodes), "fused": len(source.fused.graph.nodes)},
        "int8": dict(int8.most_common()),
        "fp32": [
            {"operator": operator, "reason": reason, "count": count} for (operator, reason), count in fp32.most_common()
        ],
        "kernels": {"isa": list(int8_isa(kernels)), "int8": proven, "of": calls},
        "size": {"fp32": parameter_bytes(source.model.graph), "int8": checkpoint(out)[1].stat().st_size},
        "onnx": {"file": str(onnx), "size": onnx.stat().st_size} if onnx.exists() else None,
        "calibration": {"method": table.method, "samples": table.samples, "data": table.data_name},
        "recovery": asdict(quantized.recovery),
        "class_scores": asdict(source.class_scores),
        "agreement": None if agreement is None else {"samples": agreement.images, **agreement.document},
        "latency_ms": dict(milliseconds) if milliseconds else None,
    }


def quantize_tables(
    result: Result, agreement: Optional[Agreement], model: str, weights: str, preset: Optional[str]
) -> list[Any]:
    """``quantize_result`` in words, and what to do next.

    Args:
        result: what is told.
        agreement: with FP32, if they were compared.
        model: how the network was called.
        weights: how its weights were.
        preset: of recovery, None where none was given.
    """
    from rich.text import Text

    size, kernels, scores = result["size"], result["kernels"], result["class_scores"]
    calibration, onnx = result["calibration"], result["onnx"]
    rows: list[tuple[str, str]] = [
        ("operators", f"{result['operators']['original']}, fused to {result['operators']['fused']}"),
        ("INT8", _counted(result["int8"].items()) or "none"),
    ]
    rows += [
        ("FP32" if index == 0 else "", f"{entry['count']} {entry['operator']}: {entry['reason']}")
        for index, entry in enumerate(result["fp32"])
    ]
    rows += [
        ("kernels", _kernels_text(kernels)),
        ("parameters", _sizes(size["fp32"], size["int8"])),
        *([("ONNX", f"{onnx['file']}, {megabytes(onnx['size'])}")] if onnx else []),
        ("calibrated", f"{calibration['method']}, {images(calibration['samples'])} of {calibration['data']}"),
        ("recovered", _recovery_text(result, preset)),
        *(agreement_rows("as FP32", agreement, " that it was calibrated with") if agreement else []),
        *([] if scores["yes"] else [("outputs", f"no class scores: {scores['why']}; give --classes if they are")]),
        *latency_rows(result["latency_ms"]),
        ("weights", weights_text(result["weights"])),
    ]
    bundle = shlex.quote(result["bundle"])
    fp32 = f"--reference {shlex.quote(model)}"
    if result["weights"]["kind"] == "file" and weights != "auto":
        fp32 += f" --weights {shlex.quote(weights)}"
    next_steps = (
        f"  quantkit evaluate {bundle} --data IMAGES {fp32}\n"
        f"  quantkit analyze {bundle} --data IMAGES {fp32}\n"
        f"  quantkit explain {bundle}"
    )
    if onnx:
        next_steps += f"\n  quantkit verify {bundle} --engine onnxruntime --engine openvino"
    if result["weights"]["kind"] != "random":
        engine = ", engine='onnxruntime'" if onnx else ""
        next_steps += f"\n  python: quantkit.load({result['bundle']!r}{engine}).predict(images)"
    title = Text(f"\n{result['model']} in INT8: {result['bundle']}", "bold")
    return [title, grid_of(rows), f"\nNext:\n{next_steps}"]


def latency_rows(milliseconds: Optional[Mapping[str, float]]) -> list[tuple[str, str]]:
    """Latencies and their ratios."""
    if not milliseconds:
        return []
    names = {"fp32": "FP32", "fp32_fused": "fused", "int8": "INT8", "mixed": "mixed"}
    times = ", ".join(f"{names[name]} {value:.2f} ms" for name, value in milliseconds.items())
    best = list(milliseconds)[-1]
    ratio = milliseconds["fp32"] / milliseconds[best]
    text = f"{times} (median, batch 1)\n{names[best]} is {ratio:.1f}x as fast as FP32"
    if best != "fp32_fused":
        text += f", {milliseconds['fp32_fused'] / milliseconds[best]:.1f}x as fast as FP32 fused"
    return [("latency", text)]


def agreement_rows(label: str, agreement: Agreement, whose: str = "") -> list[tuple[str, str]]:
    """How far two networks agree: one line, or one for each output."""
    first, *others = agreement.texts
    return [
        (label, f"{first} (of {images(agreement.images)}{whose})" if whose else first),
        *(("", text) for text in others),
    ]


def weights_text(weights: Mapping[str, str]) -> str:
    """Where weights came from."""
    kind, location = weights["kind"], weights["location"]
    if kind == "random":
        return "RANDOM: predictions mean nothing"
    return f"{kind} ({location})" if location else kind


def grid_of(rows: list[tuple[str, str]]) -> Any:
    """Labels and texts side by side."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    for label, text in rows:
        table.add_row(f"  {label}", Text(text, "bold red" if text.startswith("RANDOM") else ""))
    return table


def _recovery_text(result: Result, preset: Optional[str]) -> str:
    recovery = result["recovery"]
    names = {"centre": "ranges centred", "refit": "weights refitted", "rounding": "rounded jointly", "bias": "biases"}
    done = [text for name, text in names.items() if recovery[name]]
    if done:
        mirrored = ", mirrored ones included" if recovery["images"] > result["calibration"]["samples"] else ""
        return f"{', '.join(done)}, with {images(recovery['images'])}{mirrored}"
    if preset is not None:
        return f"nothing (preset {preset})"
    return "nothing (random weights)" if result["weights"]["kind"] == "random" else "nothing"


def _counted(counts: Any) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts)


def _sizes(fp32: int, int8: int) -> str:
    text = f"{megabytes(fp32)} in FP32, {megabytes(int8)} in the bundle"
    if fp32 > 1.1 * int8:
        return f"{text}: {fp32 / int8:.1f}x smaller"
    return f"{text} (MXNet quantizes the weights of convolutions when it loads them)"


def _kernels_text(kernels: Mapping[str, Any]) -> str:
    isa = f", on {', '.join(kernels['isa'])}" if kernels["isa"] else ""
    return f"{kernels['int8']} of {kernels['of']} convolutions and dense layers in INT8{isa}"
