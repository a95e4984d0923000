"""INT8 networks as ONNX files in ONNX Runtime and OpenVINO, held against MXNet: every model card, trained networks.

    python benchmarks/onnx_parity.py --out benchmarks/results/onnx-parity
    python benchmarks/onnx_parity.py --network resnet50 --engine openvino

Cards have random weights, 10 of the built-in photographs for calibration and 20 to compare on; their predictions mean
nothing, their kernels and sizes are real. The trained networks of accuracy.toml (in $QUANTKIT_REAL_DATA) are quantized
with the default preset and compared on all test images. Each file is checked by ONNX's checker as it is written.
Cosine and top-1 are those with MXNet's INT8 network on the same images; beside them is what INT8 itself changes, by
the images of calibration. Kernels are what the engine says that it ran. Needs the extras onnx, onnxruntime and
openvino.
"""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
from accuracy_rows import BATCH, prepared_model
from command_line import Document, arguments, data_root, rows_page, run, table, write_rows

from quantkit.api import quantize
from quantkit.backends.registry import DEPLOYED_ONNX
from quantkit.bundle import read_bundle
from quantkit.bundle.export import export_onnx
from quantkit.data.batches import batches
from quantkit.data.samples import take
from quantkit.data.sources import load_data
from quantkit.diagnosis.parity.check import engine_parity
from quantkit.diagnosis.parity.outputs import OutputParity
from quantkit.diagnosis.parity.precision import PrecisionParity
from quantkit.models.card import cards
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.config import QuantizationConfig

_CARD_CALIBRATION, _CARD_IMAGES = 10, 20
_COLUMNS = (
    "network", "weights", "INT8 file, MB", "of FP32's", "engine", "layers in INT8", "left in FP32", "images",
    "top-1 as MXNet %", "cosine with MXNet", "MXNet's cosine with FP32",
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A network, what it is calibrated with, and what the engines are compared on (float32, preprocessed)."""

    model: Model
    calibration: Any
    samples: int
    test: np.ndarray


@dataclass(frozen=True)
class Row:
    """One network in one engine; sizes in bytes. ``int8_cosine`` is that of MXNet's INT8 network with FP32."""

    network: str
    weights: str
    fp32_size: int
    int8_size: int
    int8_cosine: float
    engine: str
    version: str
    outputs: Optional[OutputParity]
    precision: Optional[PrecisionParity]


def main() -> None:
    """Compare every network that the command line asks for."""
    parser = arguments(__doc__)
    parser.add_argument("--engine", action="append", choices=DEPLOYED_ONNX, help="only this engine")
    options = parser.parse_args()
    command = "python benchmarks/onnx_parity.py" + "".join(f" --network {part}" for part in options.network or ())
    command += "".join(f" --engine {engine}" for engine in options.engine or ())
    found: list[Row] = []
    print("\n".join(table(_COLUMNS)), flush=True)
    for subject in _subjects(options.network or [""]):
        for row in _rows(subject, options.engine or DEPLOYED_ONNX):
            found.append(row)
            print(_line(asdict(row)), flush=True)
        if options.out is not None:
            write_rows(options.out, command, found, page)


def _subjects(parts: list[str]) -> Iterator[Subject]:
    suite = tomllib.loads(Path(__file__).with_name("accuracy.toml").read_text())
    for network in suite["network"]:
        if any(part in network["checkpoint"] for part in parts):
            root = data_root()
            model, data = prepared_model(network, suite, root), suite["data"][network["data"]]
            count = max(data["calibration_samples"])
            chosen = take(load_data(str(root / data["calibration"])), count)
            yield Subject(model, chosen, count, _images(model, str(root / data["test"]), None))
    for card in cards():
        images = len(card.input_shape) == 3
        if images and any(part in card.name for part in parts) and card.params is None:
            model = load_model(card.name, weights="random", quiet=True)
            yield Subject(model, "builtin", _CARD_CALIBRATION, _images(model, "builtin", _CARD_IMAGES))


def _images(model: Model, data: str, count: Optional[int]) -> np.ndarray:
    found = batches(load_data(data), model.preprocess, model.input_shape, BATCH, count)
    return np.concatenate([batch.data for batch in found])


def _rows(subject: Subject, engines: Iterable[str]) -> Iterator[Row]:
    model = subject.model
    quantized = quantize(model, subject.calibration, QuantizationConfig(num_samples=subject.samples))
    if quantized.agreement is None:
        raise TypeError("a network was quantized without being compared with FP32")
    with tempfile.TemporaryDirectory() as name:
        bundle = read_bundle(quantized.save(Path(name) / "bundle", formats=("mxnet", "onnx")))
        export_onnx(model, Path(name) / "fp32.onnx")
        content, fp32_size = bundle.onnx or b"", (Path(name) / "fp32.onnx").stat().st_size
        for engine in engines:
            test = (subject.test[start : start + BATCH] for start in range(0, len(subject.test), BATCH))
            found = engine_parity(bundle, content, engine, test, BATCH)
            if found.images is None or found.images.same is None or found.precision is None:
                raise TypeError("a classifier was compared on images, in an engine with kernels")
            yield Row(
                model.name, model.source.weights, fp32_size, len(content), quantized.agreement.cosine, engine,
                found.version, found.images, found.precision,
            )  # fmt: skip


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, map(_line, document["rows"]))


def _line(row: Mapping[str, Any]) -> str:
    outputs, precision = row["outputs"], row["precision"]
    kernels = ", ".join(f"{count} {kernel}" for kernel, count in precision["kernels"].items())
    cells = [
        row["network"], row["weights"], f"{row['int8_size'] / 1e6:.2f}", f"{row['int8_size'] / row['fp32_size']:.3f}",
        f"{row['engine']} {row['version']}", kernels,
        ", ".join((*precision["left"], *precision["planned"])) or "none",
        str(outputs["images"]), f"{100 * outputs['same'] / outputs['images']:.2f}", f"{outputs['cosine']:.5f}",
        f"{row['int8_cosine']:.5f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    run(main)
