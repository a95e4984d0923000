"""What INT8 costs a detector and a segmentation network: quantkit, ONNX Runtime and NNCF on the same images.

    python benchmarks/task_accuracy.py --out benchmarks/results/task-accuracy

``digits_ssd`` and ``digits_fcn`` ship with quantkit. They are calibrated with 64 images of ``scenes:train`` and judged
by the metric of their task on ``scenes:test``: mean average precision as in PASCAL VOC 2012, and mean intersection over
union. All networks see the same images, and losses are against FP32 in MXNet. Intervals are those of the bootstrap over
the crops of photographs behind the scenes, 95 %. Agreement is the same metric where FP32's predictions are the truth,
of a detector those with a score of one half or more. The peers quantize the FP32 ONNX file, and run it as it is and
quantkit's INT8 file, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Optional

import numpy as np
from accuracy_peers import PeerResult, Peers, write_rows_beside_peers
from command_line import Document, rows_page, run

import quantkit as qk
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.bundle.network import network_of
from quantkit.data.annotated import AnnotatedImages
from quantkit.data.batches import batches
from quantkit.data.placement import placement
from quantkit.data.samples import Samples
from quantkit.errors import EngineError
from quantkit.evaluation.measure import Measure, over_groups, score, score_drop
from quantkit.evaluation.network import Network
from quantkit.ir.graph import Graph
from quantkit.quantization.ptq_config import PresetName
from quantkit.tasks.choose import task_named
from quantkit.tasks.judge import task_and_data
from quantkit.tasks.task import Task

NETWORKS = ("digits_ssd", "digits_fcn")
PRESETS: tuple[PresetName, ...] = ("none", "balanced", "best")
_CALIBRATION, _BATCH = 64, 16

COLUMNS = ("network", "quantizer", "score", "value, % [95 %]", "loss, points [95 %]", "agreement, % [95 %]")

Interval = tuple[float, float, float]
Outputs = Sequence[np.ndarray]


@dataclass(frozen=True)
class Row:
    """One network as one quantizer makes it.

    ``value`` and ``agreement`` are from 0 to 1, ``loss`` is in points; FP32 itself has neither of the last two.
    ``failure`` says why there are no figures.
    """

    network: str
    quantizer: str
    score: str = ""
    value: Optional[Interval] = None
    loss: Optional[Interval] = None
    agreement: Optional[Interval] = None
    failure: str = ""


@dataclass(frozen=True, eq=False)
class Trial:
    """A network with the images that it is calibrated and judged with, and FP32's outputs for the latter."""

    model: qk.Model
    task: Task[Any, Any, Any]
    data: AnnotatedImages[Any]
    calibration: np.ndarray
    test: np.ndarray
    exact: Outputs

    def row(self, quantizer: str, outputs: Outputs) -> Row:
        """The figures of a network's outputs for all images."""
        own = self._measure(outputs)
        drop, agreed = score_drop(own, self._exact_measure), score(self._agreement(outputs))
        row = self._row(quantizer, own)
        loss, agreement = _interval(drop.points, drop.low, drop.high), _interval(agreed.value, agreed.low, agreed.high)
        return replace(row, loss=loss, agreement=agreement)

    def fp32_row(self) -> Row:
        """The score of FP32 in MXNet."""
        return self._row("FP32", self._exact_measure)

    @cached_property
    def _exact_measure(self) -> Measure:
        return self._measure(self.exact)

    def _row(self, quantizer: str, measure: Measure) -> Row:
        found = score(measure)
        return Row(self.model.name, quantizer, found.name, _interval(found.value, found.low, found.high))

    def _measure(self, outputs: Outputs) -> Measure:
        size = (self.model.input_shape[1], self.model.input_shape[2])
        compared = []
        for index, seen in enumerate(self.task.decode(outputs)):
            placed = placement(self.model.preprocess, self.data.size(index), size)
            compared.append(self.task.compare(self.data.truth(index), self.task.in_image(seen, placed)))
        return over_groups(self.task.measures(compared), self.data.photographs)[0]

    def _agreement(self, outputs: Outputs) -> Measure:
        size = (self.model.input_shape[1], self.model.input_shape[2])
        pairs = zip(self.task.decode(self.exact), self.task.decode(outputs))
        compared = [self.task.compare(self.task.as_truth(wanted, size), seen) for wanted, seen in pairs]
        return over_groups(self.task.agreement(compared), self.data.photographs)[0]


def main() -> None:
    """Measure the networks named on the command line."""
    write_rows_beside_peers(
        "task_accuracy", __doc__, NETWORKS, lambda name, peers: rows(trial_of(name), peers), _line, page
    )


def rows(trial: Trial, peers: Peers) -> Iterator[Row]:
    """FP32, quantkit's presets in MXNet and as ONNX files, and the peers."""
    yield trial.fp32_row()
    for result in peers.fp32(trial.model, trial.test):
        yield _peer_row(trial, result.mode, result)
    for preset in PRESETS:
        config = qk.QuantizationConfig(num_samples=_CALIBRATION, preset=preset)
        quantized = qk.quantize(trial.model, trial.calibration, config)
        yield trial.row(f"quantkit {preset}", run_all(quantized.graph, trial.test))
        for result in peers.own_file(quantized, trial.test):
            yield _peer_row(trial, f"quantkit {preset}, in {result.mode.removesuffix(' FP32')}", result)
    for result in peers.int8(trial.model, trial.calibration, trial.test):
        if result.mode != "ONNX Runtime dynamic":
            yield _peer_row(trial, result.mode, result)


def _peer_row(trial: Trial, quantizer: str, result: PeerResult) -> Row:
    if isinstance(result.outputs, str):
        return Row(trial.model.name, quantizer, failure=result.outputs)
    try:
        return trial.row(quantizer, result.outputs)
    except EngineError as error:
        return Row(trial.model.name, quantizer, failure=str(error))


def trial_of(name: str) -> Trial:
    """A shipped network with its images, preprocessed once."""
    model = qk.load_model(name)
    network = network_of(model)
    task, data = task_and_data(task_named(model.task, name), network, "scenes:test")
    if not isinstance(data, AnnotatedImages):
        raise TypeError(f"scenes:test is {type(data).__name__}")
    train = _inputs(network, qk.load_data("scenes:train"), _CALIBRATION)
    test = _inputs(network, data.samples)
    return Trial(model, task, data, train, test, run_all(model.graph, test))


def _inputs(network: Network, samples: Samples, count: Optional[int] = None) -> np.ndarray:
    """The first images, or all, as the network reads them."""
    stream = batches(samples, network.preparation, network.input_shape, _BATCH, count)
    return np.concatenate([batch.data for batch in stream])


def run_all(graph: Graph, images: np.ndarray) -> Outputs:
    """All outputs of a network for all images."""
    parts = (images[start : start + _BATCH] for start in range(0, len(images), _BATCH))
    return [np.concatenate(each) for each in zip(*outputs_of(graph, parts, _BATCH))]


def _interval(value: Optional[float], low: Optional[float], high: Optional[float]) -> Optional[Interval]:
    return None if value is None or low is None or high is None else (value, low, high)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, COLUMNS, lines(document["rows"]))


def lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rows of the page's table."""
    return (_line(Row(**each)) for each in rows)


def _line(row: Row) -> str:
    if row.failure:
        return f"| {row.network} | {row.quantizer} | failed: {row.failure[:80]} | | | |"
    value, agreement = (_told(each, 100, "") for each in (row.value, row.agreement))
    return f"| {row.network} | {row.quantizer} | {row.score} | {value} | {_told(row.loss, 1, '+')} | {agreement} |"


def _told(interval: Optional[Sequence[float]], factor: int, sign: str) -> str:
    if interval is None:
        return ""
    value, low, high = (f"{factor * each:{sign}.2f}" for each in interval)
    return f"{value} [{low}, {high}]"


if __name__ == "__main__":
    run(main)
