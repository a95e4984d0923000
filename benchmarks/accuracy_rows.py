"""Every form of a network over the same images: what each image says of it, kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from accuracy_peers import PeerResult, Peers

import quantkit
from quantkit.backends.mxnet.stock import stock_int8_outputs
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.benchmark.accuracy.forms import FUSED, UNFUSED, AdjustedForm, quantized_forms
from quantkit.benchmark.accuracy.rows import DEFAULT_FORM, PerImage, Row
from quantkit.benchmark.accuracy.suite import configurations
from quantkit.data.batches import batches
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Samples, take
from quantkit.data.sources import load_data
from quantkit.errors import UserError
from quantkit.evaluation.accuracy import hits
from quantkit.evaluation.agreement import cosines, same_top1
from quantkit.ir.graph import Graph
from quantkit.models.dataset import dataset
from quantkit.models.load import load_model
from quantkit.models.model import Model

BATCH = 10

BEST_FORM = "quantkit preset best"

# Run as ONNX files besides, in the peers' engines.
ONNX_FORMS = (DEFAULT_FORM, BEST_FORM)

Suite = Mapping[str, Any]


@dataclass(frozen=True)
class _Trial:
    """A network, the test images preprocessed once, and FP32's outputs."""

    name: str
    model: Model
    test: list[np.ndarray]
    labels: np.ndarray
    fp32: np.ndarray

    def row(self, form: str, outputs: Iterable[np.ndarray], **details: Any) -> Row:
        found = np.concatenate([output.reshape(len(output), -1) for output in outputs])
        images = PerImage(
            hits(found, self.labels),
            hits(found, self.labels, 5),
            same_top1(self.fp32, found),
            cosines(self.fp32, found),
        )
        return Row(self.name, form, images=images, **details)

    def peer_row(self, found: PeerResult, **details: Any) -> Row:
        form = details.pop("form", found.mode)
        if isinstance(found.outputs, str):
            return Row(self.name, form, failure=found.outputs, **{**details, "seconds": None})
        return self.row(form, found.outputs[:1], **details)


def rows(network: Suite, suite: Suite, root: Path, peers: Optional[Peers]) -> Iterator[Row]:
    """Measure one network of a suite; ``root`` is the folder of weights and images."""
    trial, calibration, counts = _prepared(network, suite, root)
    yield trial.row(UNFUSED, [trial.fp32])
    source = quantkit.fuse(trial.model, calibration)
    yield trial.row(FUSED, _first(outputs_of(source.graph, trial.test, BATCH)))
    if peers is not None:
        for found in peers.fp32(trial.model, np.concatenate(trial.test)):
            yield trial.peer_row(found)
    for count in counts:
        chosen = take(calibration, count)
        yield from _own_rows(trial, source, suite, dataset(trial.model, chosen), peers)
        array = np.concatenate(
            [batch.data for batch in batches(chosen, trial.model.preprocess, trial.model.input_shape, BATCH)]
        )
        for mode in suite.get("stock_modes", ()):
            outputs = stock_int8_outputs(trial.model.graph, array, mode, trial.test, BATCH)
            yield trial.row(f"stock MXNet {mode}", outputs, calibration_samples=count)
        if peers is not None:
            for found in peers.int8(trial.model, array, np.concatenate(trial.test)):
                yield trial.peer_row(found, calibration_samples=count, peer=found.peer, seconds=found.seconds)


def prepared_model(network: Suite, suite: Suite, root: Path) -> Model:
    """A network of a suite with its weights and preprocessing."""
    chosen = suite["preprocess"][network["preprocess"]]
    steps: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in chosen.items()}
    return load_model(
        root / network["model"], input_shape=network["input_shape"], preprocess=Preprocess(**steps), quiet=True
    )


def _prepared(network: Suite, suite: Suite, root: Path) -> tuple[_Trial, Samples, list[int]]:
    data, model = suite["data"][network["data"]], prepared_model(network, suite, root)
    limit = suite.get("images")
    samples = load_data(str(root / data["test"]))
    test = list(batches(samples, model.preprocess, model.input_shape, BATCH, limit))
    if any(batch.labels is None for batch in test):
        raise UserError(f"the images of {data['test']} have no labels; give them in labels.csv, or as y in the .npz")
    arrays = [batch.data for batch in test]
    fp32 = np.concatenate(list(_first(outputs_of(model.graph, arrays, BATCH))))
    labels = np.concatenate([batch.labels for batch in test if batch.labels is not None])
    trial = _Trial(model.name, model, arrays, labels, fp32.reshape(len(fp32), -1))
    return trial, load_data(str(root / data["calibration"])), data["calibration_samples"]


def _own_rows(
    trial: _Trial, source: quantkit.FusedModel, suite: Suite, chosen: CalibrationDataset, peers: Optional[Peers]
) -> Iterator[Row]:
    techniques = configurations(suite.get("presets", ()), suite.get("algorithms", ()))
    for form in quantized_forms(source, chosen, suite.get("methods", ()), techniques):
        outputs = _first(outputs_of(form.graph, trial.test, BATCH))
        yield trial.row(form.name, outputs, calibration_samples=form.calibration_samples, seconds=form.seconds)
        if peers is not None and form.name in ONNX_FORMS and isinstance(form, AdjustedForm):
            quantized = quantkit.lower(source, form.table, form.adjusted)
            for found in peers.own_file(quantized, np.concatenate(trial.test)):
                own = f"{form.name}, ONNX in {found.mode.removesuffix(' FP32')}"
                yield trial.peer_row(found, form=own, calibration_samples=form.calibration_samples, engine=found.peer)


def _first(outputs: Iterable[list[np.ndarray]]) -> Iterator[np.ndarray]:
    return (output[0] for output in outputs)


def flat_outputs(graph: Graph, images: np.ndarray) -> np.ndarray:
    """The first output of a network for all images, float32 of shape (images, values)."""
    parts = (images[start : start + BATCH] for start in range(0, len(images), BATCH))
    values: np.ndarray = np.concatenate(list(_first(outputs_of(graph, parts, BATCH))))
    return values.reshape(len(values), -1)
