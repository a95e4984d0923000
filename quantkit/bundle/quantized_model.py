"""QuantizedModel: an INT8 network and how it was made; it can be compared with FP32, saved and exported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from quantkit.bundle.export import int8_onnx
from quantkit.bundle.manifest import Settings
from quantkit.bundle.write import Quantization, write_bundle
from quantkit.calibration.table import CalibrationTable
from quantkit.data.default_samples import are_default
from quantkit.data.left_out import LeftOut
from quantkit.drift.reference import DriftReference, reference_of
from quantkit.drift.signals import Signals, signal_maker
from quantkit.errors import UserError
from quantkit.evaluation.agreement import Agreement, Outputs
from quantkit.evaluation.compare import compare
from quantkit.extras import require
from quantkit.files.files import writing
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.ir.operators import scores_kind
from quantkit.kinds import of_kind
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.lowering.onnx_lstm import LstmForm
from quantkit.models.dataset import BATCH_SIZE, CalibrationData, dataset
from quantkit.progress import Progress, silent
from quantkit.quantization.algorithms.apply import AdjustedNetwork
from quantkit.quantization.config import QuantizationConfig, preset_of
from quantkit.quantization.goal import MixedPrecision
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.reduced_range import ReduceRange
from quantkit.quantization.speed import SpeedProof
from quantkit.tasks.agreement import agreement_of

MXNET, ONNX = "mxnet", "onnx"
FORMATS = (MXNET, ONNX)
"""The forms in which a bundle may hold the network."""

_AGREEMENT_SAMPLES = 100

# Of which the signals of the input are kept; they need no run of the network.
_INPUT_SAMPLES = 1000


@dataclass(frozen=True, eq=False)
class QuantizedModel:
    """An INT8 network and how it was made.

    Attributes:
        source: the fused FP32 network.
        table: its calibration.
        network: the quantized network.
        config: how it was quantized.
        algorithms: the algorithms that were applied, with the number of images that they used.
        agreement: the agreement with FP32; None until ``measure_agreement`` has measured it.
        mixed: how layers were returned to FP32; None without a goal.
        speed: the proof that it is not slower than FP32; None where that was not asked for.
        left_out: the samples that ``quantize`` has left out, since they cannot be read or used.
        drift: the signals of the samples that the agreement was measured on, which a deployment compares its own with;
            None where it was not, or on the default samples, which are typical of nobody's.
        training: how it was trained with its quantization, as JSON values; None where it was not.
    """

    source: FusedModel
    table: CalibrationTable
    network: QuantizedGraph
    config: QuantizationConfig
    algorithms: PTQConfig
    agreement: Optional[Agreement] = None
    mixed: Optional[MixedPrecision] = None
    speed: Optional[SpeedProof] = None
    left_out: tuple[LeftOut, ...] = ()
    drift: Optional[DriftReference] = None
    training: Optional[Mapping[str, Any]] = None

    def __repr__(self) -> str:
        """The network's name, how much of it is INT8, and the agreement with FP32 if it is known."""
        layers = sum(decision.is_int8 for decision in self.plan.decisions.values())
        agreed = "" if self.agreement is None else f", cosine {self.agreement.cosine:.4f} with FP32"
        return f"QuantizedModel({self.source.model.name!r}, {layers} operators in INT8{agreed})"

    @cached_property
    def graph(self) -> Graph:
        """The INT8 network in the form that stock MXNet runs."""
        return int8_graph(self.network)

    @property
    def plan(self) -> QuantizationPlan:
        """How the fused operators and tensors are quantized."""
        return self.network.plan

    @property
    def settings(self) -> Settings:
        """How the network was quantized, in the form of a bundle's manifest."""
        table, plan = self.table, self.plan
        asked = (plan.exclude, plan.dtype, self.algorithms, self.mixed, self.speed)
        return Settings(table.method, table.samples, table.data_name, *asked)

    def save(
        self,
        directory: Union[str, Path],
        force: bool = False,
        formats: Sequence[str] = (MXNET,),
        keep_sample: bool = False,
    ) -> Path:
        """Write the network as a bundle: a folder, complete or not at all. The same network gives the same bytes.

        Args:
            directory: the folder to write.
            force: whether to replace an older bundle.
            formats: ``mxnet``, and ``onnx`` to store the network's ONNX file too; with INT8 LSTM layers there are two,
                since OpenVINO and ONNX Runtime run different forms of them in INT8.
            keep_sample: whether to store the first of the user's images, instead of a built-in one or noise.

        Raises:
            UserError: the directory or a format cannot be used, or the package onnx is not installed.
            ModelError: an operator has no ONNX form.
            QuantkitError: the disk is full or the place cannot be written.
        """
        check_formats(formats)
        forms: tuple[LstmForm, ...] = ("qdq", "dynamic") if self.network.int8_lstms else ("qdq",)
        onnx = {form: self._onnx(lstm=form) for form in forms if ONNX in formats}
        quantization = Quantization(
            self.network, self.table, self.config, self.settings, self.agreement, self.drift, self.training
        )
        return write_bundle(self.source, quantization, directory, force, onnx, keep_sample)

    def to_onnx(
        self,
        path: Union[str, Path],
        opset: Optional[int] = None,
        reduce_range: ReduceRange = "none",
        lstm: LstmForm = "qdq",
    ) -> None:
        """Write the INT8 network as an ONNX file in QDQ form, with an open batch size.

        Args:
            path: the file to write.
            opset: the version of ONNX's operators, 13 to 21; None for the oldest that has all of the network's.
            reduce_range: which weights have fewer than 8 bits; see ``export_onnx``.
            lstm: the form of INT8 LSTM layers; see ``export_onnx``.

        Raises:
            ModelError: an operator has no ONNX form.
            UserError: the opset or the form is unknown, or the package ``onnx`` is not installed.
            QuantkitError: the file cannot be written.
        """
        content = self._onnx(opset, reduce_range, lstm)
        with writing(Path(path)) as file:
            file.write(content)

    def _onnx(self, opset: Optional[int] = None, reduce_range: ReduceRange = "none", lstm: LstmForm = "qdq") -> bytes:
        return int8_onnx(self.source.model, self.network, self.settings, opset, reduce_range, lstm)


def check_formats(formats: Sequence[str]) -> None:
    """Make sure that a bundle can be written in these formats, before any long work.

    Raises:
        UserError: they are no tuple or list, one is unknown, or ``mxnet`` is not among them, which every bundle holds.
        ExtraMissing: the package onnx, which one needs, is not installed.
    """
    if isinstance(formats, str) or not isinstance(formats, Sequence):
        raise UserError(f"formats is {formats!r}; give a tuple, such as ('mxnet', 'onnx')")
    if unknown := [each for each in formats if each not in FORMATS]:
        raise UserError(f"{unknown[0]!r} is not a bundle format; choose from {', '.join(FORMATS)}")
    if MXNET not in formats:
        raise UserError(f"every bundle holds the network as MXNet runs it; give {MXNET} as well, as in mxnet,onnx")
    if ONNX in formats:
        require("onnx", "onnx", "ONNX files")


def lower(source: FusedModel, table: CalibrationTable, adjusted: AdjustedNetwork) -> QuantizedModel:
    """Make the INT8 network of a quantized graph. This needs neither samples nor an engine.

    Raises:
        UserError: an argument is of another kind.
    """
    of_kind("source", source, FusedModel, "which fuse() returns")
    of_kind("table", table, CalibrationTable, "which calibrate() and read_table() return")
    of_kind("adjusted", adjusted, AdjustedNetwork, "which apply_algorithms() returns")
    plan, requested = adjusted.network.plan, adjusted.requested
    name = preset_of(requested)
    config = QuantizationConfig(
        num_samples=table.samples,
        method=table.method,
        exclude=plan.exclude[len(source.model.exclude) :],
        dtype=plan.dtype,
        preset=name,
        algorithms=None if name else requested,
    )
    return QuantizedModel(source, table, adjusted.network, config, adjusted.algorithms)


def measure_agreement(
    quantized: QuantizedModel, evaluation_data: CalibrationData = "builtin", progress: Progress = silent
) -> QuantizedModel:
    """Measure an INT8 network's agreement with FP32.

    Args:
        quantized: the INT8 network.
        evaluation_data: the samples to compare on. The first ones are used: at most 100, and at most as many as
            calibration used.
        progress: wraps the stream of batches.

    Returns:
        The same network, with ``agreement`` and ``drift``.

    Raises:
        UserError: ``quantized`` is something else, such as a bundle's folder; ``evaluate`` takes these. Or the
            outputs do not fit the task that the network is for.
        DataError: the samples cannot be used.
        EngineError: this environment's engine cannot run INT8.
    """
    of_kind("quantized", quantized, QuantizedModel, "which quantize() and lower() return")
    source = quantized.source
    everything = dataset(source.model, evaluation_data)
    chosen = everything.subset(min(quantized.table.samples, _AGREEMENT_SAMPLES), at_most=True)
    of_task, graph = agreement_of(source.model), quantized.graph
    final = scores_kind(graph, graph.outputs[0])
    maker = signal_maker(quantized.table, graph.inputs[0], source.model.preparation, source.class_scores.yes, final)
    signals: list[Signals] = []

    def watch(data: np.ndarray, expected: Outputs, computed: Outputs) -> None:
        if of_task is not None:
            of_task.add(expected, computed)
        signals.append(maker.of_outputs(computed))

    measured = compare(source, graph, chosen, progress, watch)
    if of_task is not None:
        measured = replace(measured, scores=of_task.scores)
    if are_default(chosen.name):
        return replace(quantized, agreement=measured)
    if not maker.reads_tokens:
        seen = everything.subset(min(quantized.table.samples, _INPUT_SAMPLES), at_most=True)
        signals += [maker.of_input(batch.data) for batch in seen.stream(BATCH_SIZE)]
    return replace(quantized, agreement=measured, drift=reference_of(signals))
