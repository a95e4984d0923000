"""The forms of a network that a table of accuracy compares."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional, Union

import numpy as np

from quantkit.backends.mxnet.stock import Mode, stock_int8_graph
from quantkit.calibration.table import CalibrationTable
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.dataset import CalibrationDataset
from quantkit.errors import EngineError
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.models.dataset import BATCH_SIZE
from quantkit.progress import Progress, silent
from quantkit.quantization.algorithms.apply import AdjustedNetwork
from quantkit.quantization.algorithms.stage import apply_algorithms, plan
from quantkit.quantization.calibrate import calibrate
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph

UNFUSED, FUSED = "FP32 unfused", "FP32 fused"


@dataclass(frozen=True, eq=False)
class Form:
    """A network in one form, as MXNet runs it.

    Attributes:
        name: the form's.
        graph: the network.
        calibration_samples: how many; None where nothing was calibrated.
        seconds: those of the algorithms.
    """

    name: str
    graph: Graph
    calibration_samples: Optional[int] = None
    seconds: Optional[float] = None


@dataclass(frozen=True, eq=False, kw_only=True)
class AdjustedForm(Form):
    """A form to which algorithms were applied: its calibration, and what they made of the network."""

    table: CalibrationTable
    adjusted: AdjustedNetwork


@dataclass(frozen=True)
class Unmade:
    """A form that could not be made, and why."""

    name: str
    calibration_samples: int
    failure: str


def quantized_forms(
    source: FusedModel,
    calibration: CalibrationDataset,
    methods: Sequence[str],
    configurations: Mapping[str, PTQConfig],
    progress: Progress = silent,
    executor: Executor = in_this_process,
) -> Iterator[Form]:
    """The INT8 forms of a network, calibrated with all of these samples.

    Args:
        source: the fused network.
        calibration: the samples, whose number is known.
        methods: calibration methods, each without algorithms.
        configurations: techniques by the names of their forms, with the default method.
        progress: wraps streams of batches.
        executor: where to run the network for its ranges.

    Raises:
        DataError: the samples cannot be used.
    """
    count = calibration.size
    for method in methods:
        ranges = calibrate(source, calibration, count, method, progress, executor)
        graph = int8_graph(QuantizedGraph(source.fused.graph, plan(source, ranges)))
        yield Form(f"quantkit {method}", graph, count)
    if not configurations:
        return
    ranges = calibrate(source, calibration, count, progress=progress, executor=executor)
    planned = plan(source, ranges)
    for name, techniques in configurations.items():
        begin = time.perf_counter()
        adjusted = apply_algorithms(source, ranges, planned, calibration, techniques, progress)
        seconds = time.perf_counter() - begin
        yield AdjustedForm(name, int8_graph(adjusted.network), count, seconds, table=ranges, adjusted=adjusted)


def stock_forms(
    source: FusedModel, calibration: CalibrationDataset, modes: Sequence[Mode]
) -> Iterator[Union[Form, Unmade]]:
    """What stock MXNet's own quantization makes of a network with these samples, in each mode."""
    if not modes:
        return
    array = np.concatenate([batch.data for batch in calibration.batches(BATCH_SIZE)])
    for mode in modes:
        name = f"stock MXNet {mode}"
        try:
            yield Form(name, stock_int8_graph(source.model.graph, array, mode), len(array))
        except EngineError as error:
            yield Unmade(name, len(array), str(error))
