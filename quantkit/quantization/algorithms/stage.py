"""From a calibrated network to its quantized one: what runs in INT8, with which weights, biases and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Union

import numpy as np

from quantkit.calibration.table import CalibrationTable
from quantkit.data.default_samples import are_default
from quantkit.errors import ModelError
from quantkit.fusion.fused_model import FusedModel
from quantkit.kinds import of_kind
from quantkit.models.dataset import BATCH_SIZE, CalibrationData, batch_size_of, dataset
from quantkit.progress import Progress, silent
from quantkit.quantization.algorithms.apply import AdjustedNetwork, with_mirrored
from quantkit.quantization.algorithms.apply import apply_algorithms as adjust
from quantkit.quantization.algorithms.pre_add_ranges import with_measured_pre_add_ranges
from quantkit.quantization.plan import QuantizationPlan, TensorDtype
from quantkit.quantization.planning import make_plan
from quantkit.quantization.ptq_config import DEFAULT_PRESET, PresetName, PTQConfig, preset
from quantkit.quantization.quantized_graph import QuantizedGraph

_SUM_SAMPLES = 32


def plan(
    source: FusedModel,
    table: CalibrationTable,
    exclude: Union[str, Sequence[str]] = (),
    dtype: TensorDtype = "auto",
) -> QuantizationPlan:
    """Decide for each operator whether it runs in INT8, and in which integers.

    Args:
        source: the fused model.
        table: its calibration.
        exclude: what stays in FP32, besides what the model's card names: original node names, globs over them, or
            operator types.
        dtype: the type of tensors that are quantized from FP32: ``int8``, ``uint8``, or ``auto``, which takes uint8
            where the range has no negative values.

    Raises:
        ModelError: the table belongs to another network.
        UserError: the type is unknown, an exclusion matches nothing, uint8 is asked for a tensor with negative values,
            or an argument is of another kind.
    """
    of_kind("source", source, FusedModel, "which fuse() returns")
    of_kind("table", table, CalibrationTable, "which calibrate() and read_table() return")
    if table.graph_sha256 != source.sha256:
        raise ModelError(
            f"the calibration table was made for another network or other weights than {source.model.name!r}, or by "
            "another version of quantkit; calibrate again"
        )
    patterns = (exclude,) if isinstance(exclude, str) else tuple(exclude)
    return make_plan(source.fused, table, (*source.model.exclude, *patterns), dtype)


def apply_algorithms(
    source: FusedModel,
    table: CalibrationTable,
    plan: QuantizationPlan,
    calibration_data: CalibrationData = "builtin",
    algorithms: Union[PresetName, PTQConfig, None] = None,
    progress: Progress = silent,
) -> AdjustedNetwork:
    """Change weights, biases and ranges, by the techniques of ``PTQConfig``, so that the INT8 network loses less.

    Afterwards the quantized network is complete: with every preset it has the pre-add ranges, too.

    Args:
        source: the fused model.
        table: its calibration.
        plan: what becomes INT8. Algorithms return nothing to FP32.
        calibration_data: what to look at: the first samples, at most as many as the calibration used. If the built-in
            photographs stand in for other images with which the table was made, channels are not shifted: their new
            ranges would be those of the photographs.
        algorithms: a preset's name (``none``, ``fast``, ``balanced``, ``best``), or the techniques one by one;
            None: ``balanced``, but ``none`` for random weights, which have no accuracy to recover.
        progress: wraps the walk over the operators.

    Raises:
        UserError: there is no such preset, or an argument is of another kind.
        DataError: the samples cannot be used.
    """
    of_kind("source", source, FusedModel, "which fuse() returns")
    of_kind("table", table, CalibrationTable, "which calibrate() and read_table() return")
    of_kind("plan", plan, QuantizationPlan, "which plan() returns")
    if algorithms is None:
        algorithms = "none" if source.model.source.weights == "random" else DEFAULT_PRESET
    wanted = requested = algorithms if isinstance(algorithms, PTQConfig) else preset(algorithms)
    most = wanted.samples(source.fused)
    data = dataset(source.model, calibration_data)
    images: list[np.ndarray] = []
    if wanted.needs_images:
        chosen = data.subset(min(table.samples, most), at_most=True)
        if are_default(chosen.name) and table.data_name != chosen.name:
            wanted = replace(wanted, channel_shift=False)
        images = [batch.data for batch in chosen.batches(BATCH_SIZE)]
    if wanted.mirror and images:
        images = with_mirrored(images, most)
    network = QuantizedGraph(source.fused.graph, plan)
    result = adjust(network, source.fused.original, images, table.method, wanted, progress)
    return with_pre_add_ranges(source, table, replace(result, requested=requested), data)


def with_pre_add_ranges(
    source: FusedModel, table: CalibrationTable, adjusted: AdjustedNetwork, calibration_data: CalibrationData
) -> AdjustedNetwork:
    """The adjusted network with the ranges of layers' results before sums measured; see ``pre_add_ranges``.

    They follow from the final weights, and from which layers run in INT8: whoever changes these measures anew.

    Args:
        source: the fused model.
        table: its calibration.
        adjusted: what algorithms made of the network.
        calibration_data: what to look at: the first samples, at most 32, and as many as were calibrated with.

    Raises:
        DataError: the samples cannot be used.
    """
    chosen = dataset(source.model, calibration_data).subset(min(table.samples, _SUM_SAMPLES), at_most=True)
    inputs = (batch.data for batch in chosen.batches(BATCH_SIZE))
    network = with_measured_pre_add_ranges(adjusted.network, inputs, batch_size_of(chosen), table.method)
    return replace(adjusted, network=network)
