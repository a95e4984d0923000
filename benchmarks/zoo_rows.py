"""What becomes of a network of GluonCV's zoo, stage by stage, in this process."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any, Optional

import numpy as np
from command_line import host_facts, revision_facts

from quantkit.backends.mxnet.execute import run
from quantkit.backends.registry import DEPLOYED_ONNX
from quantkit.bundle import read_bundle
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.quantized_model import QuantizedModel, lower, measure_agreement
from quantkit.data.dataset import CalibrationDataset
from quantkit.diagnosis.coverage import Coverage, coverage
from quantkit.diagnosis.parity.check import engine_parity
from quantkit.errors import QuantkitError
from quantkit.evaluation.agreement import cosines
from quantkit.fusion.compared import compared, sorted_within
from quantkit.fusion.fused_model import fuse_model
from quantkit.models.catalogue import Entry
from quantkit.models.dataset import dataset
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.algorithms.stage import apply_algorithms, plan
from quantkit.quantization.calibrate import calibrate
from quantkit.quantization.ptq_config import NO_ALGORITHMS
from quantkit.tasks.agreement import agreement_of

_SAMPLES = 1


@dataclass(frozen=True)
class InEngine:
    """An ONNX file in an engine: its cosine with MXNet and the layers that ran in integers; or what it failed at.

    ``cosine`` is None where the outputs are lists that are sorted by score.
    """

    cosine: Optional[float] = None
    integers: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Row:
    """What became of one network.

    ``reached`` is the last stage that succeeded: nothing, loaded, fused, quantized or exported. ``problem`` is why the
    next one, or an engine after the last, did not. ``fusion`` is the largest relative deviation of fused FP32,
    ``cosine`` that of INT8 with FP32; where outputs are lists that are sorted by score, of the tensors before, and None
    where the network selects regions within. ``bound`` is the memory that its process may have, ``peak`` what it had
    at most, in GiB; ``full_input`` is the input that needed more. ``minutes`` is the time that the network may take.
    ``quantized_as`` is the network that quantkit quantizes in place of one of GluonCV's own INT8 networks, whose row
    says the rest. ``host`` and ``revision`` are those that measured, and ``measured`` is when that began, in UTC.
    """

    network: str
    task: str
    input: str
    reached: str = "nothing"
    problem: str = ""
    fusion: Optional[float] = None
    cosine: Optional[float] = None
    coverage: Optional[Coverage] = None
    engines: Mapping[str, InEngine] = field(default_factory=dict)
    seconds: float = 0.0
    bound: float = 0.0
    peak: float = 0.0
    full_input: str = ""
    minutes: float = 0.0
    quantized_as: Optional[str] = None
    host: Mapping[str, str] = field(default_factory=dict)
    revision: Mapping[str, Any] = field(default_factory=dict)
    measured: str = ""


def blank(entry: Entry, gigabytes: float, halved: int = 0) -> Row:
    """The row of a network of which nothing is known yet."""
    extents = "x".join(map(str, _shape(entry, halved)))
    measured = datetime.now(UTC).isoformat(timespec="seconds")
    measuring = Row(entry.name, entry.task, extents, bound=gigabytes, measured=measured)
    return replace(measuring, host=host_facts(), revision=revision_facts())


def rows_of(entry: Entry, gigabytes: float, halved: int = 0) -> Iterator[Row]:
    """Take a network through all stages in this process, as far as it goes: its row at the start and after each."""
    began = perf_counter()
    row = blank(entry, gigabytes, halved)
    yield row
    most = round(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    for reached in stages(row, _shape(entry, halved) if halved else None):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        yield replace(reached, seconds=perf_counter() - began, peak=peak)


def _shape(entry: Entry, halved: int) -> tuple[int, ...]:
    channels, *sides = entry.input_shape
    return (channels, *(side >> halved for side in sides))


def stages(row: Row, shape: Optional[tuple[int, ...]] = None) -> Iterator[Row]:
    """The row after each stage, for inputs of another shape if one is given; the last row says what stopped it."""
    reached = row
    try:
        for reached in _succeeding(row, shape):
            yield reached
    except QuantkitError as error:
        yield replace(reached, problem=f"{type(error).__name__}: {error}")
    except MemoryError:
        yield replace(reached, problem="more memory than it may have")


def _succeeding(row: Row, shape: Optional[tuple[int, ...]]) -> Iterator[Row]:
    model = load_model(row.network, weights="random", input_shape=shape, quiet=True)
    row = replace(row, reached="loaded")
    yield row
    data = dataset(model, samples(model)).subset(_SAMPLES)
    source = fuse_model(model, data)
    row = replace(row, reached="fused", fusion=source.check.difference)
    yield row
    ranges = calibrate(source, data, _SAMPLES)
    adjusted = apply_algorithms(source, ranges, plan(source, ranges), data, NO_ALGORITHMS)
    quantized = measure_agreement(lower(source, ranges, adjusted), data)
    covered = coverage(quantized.source.fused, quantized.plan.decisions.values())
    row = replace(row, reached="quantized", coverage=covered, cosine=_cosine(quantized, data))
    yield row
    with tempfile.TemporaryDirectory() as name:
        bundle = read_bundle(quantized.save(Path(name) / "bundle", formats=("mxnet", "onnx")))
        row = replace(row, reached="exported")
        yield row
        for engine in DEPLOYED_ONNX:
            row = replace(row, engines={**row.engines, engine: _in_engine(bundle, engine)})
            yield row


def samples(model: Model) -> Any:
    """The built-in photographs where the network reads such; noise elsewhere."""
    if model.preprocess is not None:
        return "builtin"
    return np.random.default_rng(0).standard_normal((_SAMPLES, *model.input_shape), np.float32)


def _cosine(quantized: QuantizedModel, data: CalibrationDataset) -> Optional[float]:
    """The lowest cosine of a tensor of INT8 with FP32; None where the two cannot be compared."""
    assert quantized.agreement is not None
    judged = agreement_of(quantized.source.model)
    if judged is None or not judged.unordered:
        found = [output.cosine for output in quantized.agreement.outputs]
    elif sorted_within(quantized.source.graph):
        found = []
    else:
        found = _before_sorting(quantized, next(iter(data.batches(_SAMPLES))).data)
    return min(filter(isfinite, found), default=None)


def _before_sorting(quantized: QuantizedModel, batch: np.ndarray) -> list[float]:
    before, after = compared(quantized.source.graph, quantized.graph)
    if before.outputs != after.outputs or before.outputs == quantized.source.graph.outputs:
        return []
    expected, computed = (run(graph, {graph.inputs[0]: batch}) for graph in (before, after))
    return [float(cosines(one, other).mean()) for one, other in zip(expected, computed)]


def _in_engine(bundle: Bundle, engine: str) -> InEngine:
    try:
        parity = engine_parity(bundle, bundle.onnx() or b"", engine, None, 1)
    except QuantkitError as error:
        return InEngine(problem=f"{type(error).__name__}: {error}")
    count = sum(parity.precision.kernels.values()) if parity.precision else 0
    return InEngine(None if parity.sample.unordered else parity.sample.cosine, count)
