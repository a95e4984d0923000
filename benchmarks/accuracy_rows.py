"""Every form of a network over the same images: what each image says of it, kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from accuracy_peers import PeerResult, Peers

import quantkit
from quantkit.backends.mxnet.stock import stock_int8_outputs
from quantkit.backends.mxnet.stream import outputs_of
from quantkit.data.batches import batches
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Samples, take
from quantkit.data.sources import load_data
from quantkit.errors import UserError
from quantkit.evaluation.accuracy import hits
from quantkit.evaluation.agreement import cosines, same_top1
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.ptq_config import DEFAULT_PRESET, PresetName, PTQConfig, preset
from quantkit.quantization.quantized_graph import QuantizedGraph

BATCH = 10

DEFAULT_FORM = f"quantkit preset {DEFAULT_PRESET}"
BEST_FORM = "quantkit preset best"
UNFUSED = "FP32 unfused"

# Run as ONNX files besides, in the peers' engines.
ONNX_FORMS = (DEFAULT_FORM, BEST_FORM)

Suite = Mapping[str, Any]


@dataclass(frozen=True)
class PerImage:
    """What each image says of a form, arrays of shape (images,).

    ``top1`` and ``top5`` tell whether its label is among the first or the first five, ``same`` whether FP32 has the
    same top-1; ``cosine`` is that with FP32's outputs.
    """

    top1: np.ndarray
    top5: np.ndarray
    same: np.ndarray
    cosine: np.ndarray


@dataclass(frozen=True)
class Row:
    """One network in one form, or why it failed.

    ``peer`` is the other quantizer whose INT8 form it is; ``engine`` the peer in whose engine quantkit's ONNX file ran;
    ``seconds`` are those of the algorithms, or of a peer's quantization.
    """

    network: str
    form: str
    calibration_samples: Optional[int] = None
    images: Optional[PerImage] = None
    seconds: Optional[float] = None
    peer: Optional[str] = None
    engine: Optional[str] = None
    failure: Optional[str] = None


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
    yield trial.row("FP32 fused", _first(outputs_of(source.graph, trial.test, BATCH)))
    if peers is not None:
        for found in peers.fp32(trial.model, np.concatenate(trial.test)):
            yield trial.peer_row(found)
    for count in counts:
        chosen = take(calibration, count)
        yield from _own_rows(trial, source, suite, chosen, count, peers)
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
        root / network["checkpoint"], input_shape=network["input_shape"], preprocess=Preprocess(**steps), quiet=True
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
    trial: _Trial, source: quantkit.FusedModel, suite: Suite, chosen: Samples, count: int, peers: Optional[Peers]
) -> Iterator[Row]:
    for method in suite.get("methods", ()):
        table = quantkit.calibrate(source, chosen, count, method)
        graph = int8_graph(QuantizedGraph(source.fused.graph, quantkit.plan(source, table)))
        outputs = _first(outputs_of(graph, trial.test, BATCH))
        yield trial.row(f"quantkit {method}", outputs, calibration_samples=count)
    table = quantkit.calibrate(source, chosen, count)
    planned = quantkit.plan(source, table)
    for form, wanted in configurations(suite).items():
        begin = time.perf_counter()
        adjusted = quantkit.apply_algorithms(source, table, planned, chosen, wanted)
        seconds = time.perf_counter() - begin
        outputs = _first(outputs_of(int8_graph(adjusted.network), trial.test, BATCH))
        yield trial.row(form, outputs, calibration_samples=count, seconds=seconds)
        if peers is not None and form in ONNX_FORMS:
            quantized = quantkit.lower(source, table, adjusted)
            for found in peers.own_file(quantized, np.concatenate(trial.test)):
                own = f"{form}, ONNX in {found.mode.removesuffix(' FP32')}"
                yield trial.peer_row(found, form=own, calibration_samples=count, engine=found.peer)


def configurations(suite: Suite) -> dict[str, Union[PresetName, PTQConfig]]:
    """The suite's configurations by name: its presets, and techniques one by one.

    An entry of ``algorithms`` has a ``name`` and fields of ``PTQConfig``, on top of those of ``preset`` if it names
    one.

    Raises:
        UserError: there is no such technique or preset.
    """
    found: dict[str, Union[PresetName, PTQConfig]] = {
        f"quantkit preset {name}": name for name in suite.get("presets", ())
    }
    known = {field.name for field in fields(PTQConfig)}
    for entry in suite.get("algorithms", ()):
        techniques = {key: value for key, value in entry.items() if key not in ("name", "preset")}
        if unknown := techniques.keys() - known:
            raise UserError(
                f"unknown technique {min(unknown)!r} in {entry['name']!r}; choose of {', '.join(sorted(known))}"
            )
        found[f"quantkit {entry['name']}"] = replace(preset(entry.get("preset", "none")), **techniques)
    return found


def _first(outputs: Iterable[list[np.ndarray]]) -> Iterator[np.ndarray]:
    return (output[0] for output in outputs)


def flat_outputs(graph: Graph, images: np.ndarray) -> np.ndarray:
    """The first output of a network for all images, float32 of shape (images, values)."""
    parts = (images[start : start + BATCH] for start in range(0, len(images), BATCH))
    values: np.ndarray = np.concatenate(list(_first(outputs_of(graph, parts, BATCH))))
    return values.reshape(len(values), -1)
