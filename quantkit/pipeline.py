"""The stages from a network to an INT8 network, each from value to value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import tee
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np

from quantkit.bundle.write import settings_of, write_bundle
from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.table import CalibrationTable
from quantkit.data.batches import check_not_constant
from quantkit.data.dataset import CalibrationDataset
from quantkit.emission.mxnet_float import float_graph
from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.emission.onnx_model import DEFAULT_OPSET
from quantkit.engine.stream import outputs_of
from quantkit.errors import ModelError, UserError
from quantkit.evaluation.agreement import Agreement, agreement
from quantkit.export import int8_onnx
from quantkit.extras import require
from quantkit.files import writing
from quantkit.fusion.fuse import Fused, fuse
from quantkit.fusion.gate import FusionCheck, check_fusion
from quantkit.graph import nnvm
from quantkit.graph.graph import Graph
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.goal import MixedPrecision
from quantkit.quantization.plan import ActivationType, Plan, calibration_targets, make_plan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.recovery.before_sum import with_ranges_before_sums
from quantkit.recovery.preset import DEFAULT_PRESET, NO_RECOVERY, Recovery, preset
from quantkit.recovery.reconstruction import Progress
from quantkit.recovery.recover import Recovered, with_mirrored
from quantkit.recovery.recover import recover as recovered

DEFAULT_METHOD = "mse"
DEFAULT_SAMPLES = 32

MXNET, ONNX = "mxnet", "onnx"
FORMATS = (MXNET, ONNX)
"""What the network in a bundle may be written as."""

# Small enough to hold every tensor of a batch at once, and to let Ctrl-C through within a second.
BATCH_SIZE = 4

_GATE_SAMPLES = 4
_AGREEMENT_SAMPLES = 100
_SUM_SAMPLES = 32


def silent(stream: Iterable[Any], total: int, title: str) -> Iterable[Any]:
    """No progress display."""
    return stream


@dataclass(frozen=True, eq=False)
class FusedModel:
    """A model with its fused network, which passed the numeric gate.

    ``sample`` is one input of the comparison, float32 of shape (1, channels, height, width); ``builtin`` is the name of
    the built-in samples that it is one of, empty where it is the user's own.
    """

    model: Model
    fused: Fused
    check: FusionCheck
    sample: np.ndarray
    builtin: str = ""

    @cached_property
    def graph(self) -> Graph:
        """The fused FP32 network in the form that stock MXNet runs."""
        return float_graph(self.fused.graph)

    @cached_property
    def sha256(self) -> str:
        """What identifies the fused network, structure and weights."""
        return nnvm.sha256_of(self.graph)


@dataclass(frozen=True, eq=False)
class QuantizedModel:
    """An INT8 network with all that led to it.

    ``network`` was lowered to ``graph``, which MXNet runs. ``agreement`` is with FP32 on the calibration samples.
    ``mixed`` is how layers were returned to FP32, None where no goal was given.
    """

    source: FusedModel
    table: CalibrationTable
    network: QuantizedGraph
    recovery: Recovery
    graph: Graph
    agreement: Agreement
    mixed: Optional[MixedPrecision] = None

    @property
    def plan(self) -> Plan:
        """What became of the fused operators and tensors."""
        return self.network.plan

    def save(
        self,
        directory: Union[str, Path],
        force: bool = False,
        formats: Sequence[str] = (MXNET,),
        keep_sample: bool = False,
    ) -> Path:
        """Write the bundle; see ``bundle.write_bundle``.

        Args:
            directory: where to.
            force: whether an older bundle may be replaced.
            formats: ``mxnet``, and ``onnx`` if the bundle is to hold the network's ONNX file too.
            keep_sample: whether the first of the user's own images is stored, instead of one that is nobody's.

        Raises:
            UserError: the directory or a format cannot be used, or the package onnx is not installed.
            ModelError: an operator has no ONNX form.
            QuantkitError: the disk is full or the place cannot be written.
        """
        check_formats(formats)
        onnx = self._onnx(DEFAULT_OPSET) if ONNX in formats else None
        return write_bundle(self, Path(directory), force, onnx, keep_sample)

    def to_onnx(self, path: Union[str, Path], opset: int = DEFAULT_OPSET) -> None:
        """Write the INT8 network as an ONNX file; see ``export.int8_onnx``."""
        content = self._onnx(opset)
        with writing(Path(path)) as file:
            file.write(content)

    def _onnx(self, opset: int) -> bytes:
        return int8_onnx(self.source.model, self.network, settings_of(self), opset)


def check_formats(formats: Sequence[str]) -> None:
    """Make sure that a bundle can be written in these formats, before the long work.

    Raises:
        UserError: one is unknown, or ``mxnet`` is not among them, which every bundle holds.
        ExtraMissing: the package onnx, which one needs, is not installed.
    """
    if unknown := sorted(set(formats) - set(FORMATS)):
        raise UserError(f"{unknown[0]!r} is no format of bundles; choose from {', '.join(FORMATS)}")
    if MXNET not in formats:
        raise UserError(f"every bundle holds the network as MXNet runs it; give {MXNET} as well, as in mxnet,onnx")
    if ONNX in formats:
        require("onnx", "onnx", "ONNX files")


def fuse_model(model: Model, samples: Any = "builtin") -> FusedModel:
    """Fuse a model's operators and compare the result with the original on a few samples.

    Raises:
        FusionError: the fused network computes something else.
        ModelError: the network puts out NaN or infinite values for a sample.
        DataError: the samples cannot be used.
    """
    fused = fuse(model.graph, model.input_shape)
    chosen = _chosen(model, samples, _GATE_SAMPLES, at_most=True)
    batched = list(chosen.batches(BATCH_SIZE))
    few, names = [batch.data for batch in batched], [name for batch in batched for name in batch.names]
    check = check_fusion(model.graph, float_graph(fused.graph), few, BATCH_SIZE, names)
    return FusedModel(model, fused, check, few[0][:1], chosen.name if chosen.builtin else "")


def calibrate(
    source: FusedModel,
    samples: Any = "builtin",
    count: Optional[int] = None,
    method: str = DEFAULT_METHOD,
    progress: Progress = silent,
) -> CalibrationTable:
    """Measure the ranges of the fused network's tensors.

    Args:
        source: the fused model.
        samples: anything that ``open_samples`` takes.
        count: how many samples; None: ``DEFAULT_SAMPLES``, or all where there are fewer.
        method: ``minmax``, ``percentile``, ``entropy`` or ``mse``, with a number after a colon where it takes one.
        progress: wraps the stream of batches.

    Raises:
        DataError: too few samples, or some that cannot be used.
    """
    wanted = DEFAULT_SAMPLES if count is None else count
    chosen = _chosen(source.model, samples, wanted, at_most=count is None)
    stream = check_not_constant(chosen.batches(BATCH_SIZE), chosen.name)
    shown = progress(stream, steps(chosen), f"calibrating ({method})")
    targets = calibration_targets(source.fused.graph)
    ranges = collect_ranges(source.graph, targets, (batch.data for batch in shown), BATCH_SIZE, method)
    return CalibrationTable(method, len(chosen), chosen.name, ranges, source.sha256, chosen.sha256)


def plan(
    source: FusedModel,
    table: CalibrationTable,
    exclude: Union[str, Sequence[str]] = (),
    activations: ActivationType = "auto",
) -> Plan:
    """Decide what runs in INT8; see ``quantization.plan.make_plan``.

    Raises:
        ModelError: the table belongs to another network.
        UserError: an exclusion matches nothing.
    """
    if table.graph_sha256 != source.sha256:
        raise ModelError(
            f"the calibration table was made for another network or other weights than {source.model.name!r}; "
            "calibrate again"
        )
    patterns = (exclude,) if isinstance(exclude, str) else tuple(exclude)
    return make_plan(source.fused, table, (*source.model.exclude, *patterns), activations)


def recover(
    source: FusedModel,
    table: CalibrationTable,
    plan: Plan,
    samples: Any = "builtin",
    recovery: Union[str, Recovery, None] = None,
    progress: Progress = silent,
) -> Recovered:
    """Change weights, biases and ranges so that the INT8 network loses less; see ``recovery.preset``.

    Args:
        source: the fused model.
        table: its calibration.
        plan: what becomes INT8. Recovery gives nothing back to FP32.
        samples: what to look at: the first of them, at most as many as were calibrated with.
        recovery: a preset's name (``none``, ``fast``, ``balanced``, ``best``), or the techniques one by one;
            None: ``balanced``, but ``none`` for random weights, which have no accuracy to recover.
        progress: wraps the walk over the operators.

    Raises:
        UserError: there is no such preset.
        DataError: the samples cannot be used.
    """
    if recovery is None:
        recovery = "none" if source.model.source.weights == "random" else DEFAULT_PRESET
    wanted = preset(recovery) if isinstance(recovery, str) else recovery
    most = wanted.samples(source.fused)
    images: list[np.ndarray] = []
    if wanted.needs_images:
        chosen = _chosen(source.model, samples, min(table.samples, most), at_most=True)
        images = [batch.data for batch in chosen.batches(BATCH_SIZE)]
    if wanted.mirror and images:
        images = with_mirrored(images, most)
    network = QuantizedGraph(source.fused.graph, plan)
    return recovered(network, source.fused.original, images, table.method, wanted, progress)


def emit(
    source: FusedModel,
    table: CalibrationTable,
    plan: Union[Plan, Recovered],
    samples: Any = "builtin",
    progress: Progress = silent,
) -> QuantizedModel:
    """Emit the INT8 network, of a plan or of what was recovered, and compare it with FP32 on at most 100 samples."""
    recovery = plan.recovery if isinstance(plan, Recovered) else NO_RECOVERY
    network = plan.network if isinstance(plan, Recovered) else QuantizedGraph(source.fused.graph, plan)
    data = dataset(source.model, samples)
    few = _chosen(source.model, data, min(table.samples, _SUM_SAMPLES), at_most=True)
    inputs = (batch.data for batch in few.batches(BATCH_SIZE))
    complete = with_ranges_before_sums(network, inputs, BATCH_SIZE, table.method)
    graph = int8_graph(complete)
    chosen = _chosen(source.model, data, min(table.samples, _AGREEMENT_SAMPLES), at_most=True)
    found = compare(source.model.graph, graph, source.model, chosen, progress)
    return QuantizedModel(source, table, complete, recovery, graph, found)


def compare(reference: Graph, other: Graph, model: Model, samples: Any, progress: Progress = silent) -> Agreement:
    """Run two forms of a model's network over samples, batch by batch, and compare their first outputs."""
    chosen = dataset(model, samples)

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        stream = progress(chosen.batches(BATCH_SIZE), steps(chosen), "comparing with FP32")
        first, second = tee(batch.data for batch in stream)
        for a, b in zip(outputs_of(reference, first, BATCH_SIZE), outputs_of(other, second, BATCH_SIZE)):
            yield a[0], b[0]

    return agreement(pairs())


def quantize(
    model: Any,
    calib: Optional[int] = None,
    samples: Any = "builtin",
    method: str = DEFAULT_METHOD,
    exclude: Union[str, Sequence[str]] = (),
    activations: ActivationType = "auto",
    table: Optional[CalibrationTable] = None,
    recovery: Union[str, Recovery, None] = None,
    progress: Progress = silent,
    **loading: Any,
) -> QuantizedModel:
    """From a network to its INT8 form in one call.

    Args:
        model: a Model, or anything that ``load_model`` takes.
        calib: the number of calibration samples.
        samples: what to calibrate and compare with.
        method: the calibration method.
        exclude: original node names, globs or operator types that stay FP32.
        activations: see ``make_plan``.
        table: an earlier calibration of the same network, instead of a new one.
        recovery: see ``recover``.
        progress: wraps streams of batches.
        **loading: options of ``load_model`` (``weights``, ``params``, ``input_shape``, ``preprocess``), where
            ``model`` is not a Model yet.
    """
    loaded = model if isinstance(model, Model) else load_model(model, **loading)
    samples = dataset(loaded, samples)
    source = fuse_model(loaded, samples)
    found = table if table is not None else calibrate(source, samples, calib, method, progress)
    planned = plan(source, found, exclude, activations)
    return emit(source, found, recover(source, found, planned, samples, recovery, progress), samples, progress)


def dataset(model: Model, samples: Any) -> CalibrationDataset:
    """Anything that ``open_samples`` takes as the model reads it; a dataset comes back as it is.

    Raises:
        UserError: the dataset was made for a model that reads other inputs.
    """
    if not isinstance(samples, CalibrationDataset):
        return CalibrationDataset(samples, model.preprocess, model.input_shape)
    samples.check_form(model.preprocess, model.input_shape, model.name)
    return samples


def _chosen(model: Model, samples: Any, count: int, at_most: bool = False) -> CalibrationDataset:
    return dataset(model, samples).subset(count, at_most)


def steps(chosen: CalibrationDataset) -> int:
    """How many batches the progress display is to expect; 0 where nobody knows."""
    return 0 if chosen.size is None else -(-chosen.size // BATCH_SIZE)
