"""From a calibrated network to its quantized one: what runs in INT8, with which weights, biases and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Union

import numpy as np

from quantkit.calibration.table import CalibrationTable
from quantkit.errors import ModelError
from quantkit.progress import Progress, silent
from quantkit.quantization.plan import ActivationType, Plan, make_plan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.recovery.before_sum import with_ranges_before_sums
from quantkit.recovery.preset import DEFAULT_PRESET, Recovery, preset
from quantkit.recovery.recover import Recovered, with_mirrored
from quantkit.recovery.recover import recover as recovered
from quantkit.stages.fuse import FusedModel
from quantkit.stages.samples import BATCH_SIZE, dataset

_SUM_SAMPLES = 32


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

    The quantized network is complete afterwards: it has the ranges before sums too, with whatever preset.

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
    data = dataset(source.model, samples)
    images: list[np.ndarray] = []
    if wanted.needs_images:
        chosen = data.subset(min(table.samples, most), at_most=True)
        images = [batch.data for batch in chosen.batches(BATCH_SIZE)]
    if wanted.mirror and images:
        images = with_mirrored(images, most)
    network = QuantizedGraph(source.fused.graph, plan)
    found = recovered(network, source.fused.original, images, table.method, wanted, progress)
    return with_pre_add_ranges(source, table, found, data)


def with_pre_add_ranges(source: FusedModel, table: CalibrationTable, found: Recovered, samples: Any) -> Recovered:
    """What was recovered, with the ranges of layers' results before sums measured; see ``recovery.before_sum``.

    They follow from the final weights, and from which layers run in INT8: whoever changes these measures anew.

    Args:
        source: the fused model.
        table: its calibration.
        found: what was recovered.
        samples: what to look at: the first of them, at most 32, and as many as were calibrated with.

    Raises:
        DataError: the samples cannot be used.
    """
    chosen = dataset(source.model, samples).subset(min(table.samples, _SUM_SAMPLES), at_most=True)
    inputs = (batch.data for batch in chosen.batches(BATCH_SIZE))
    return replace(found, network=with_ranges_before_sums(found.network, inputs, BATCH_SIZE, table.method))
