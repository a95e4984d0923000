"""INT8 networks as ONNX files in ONNX Runtime and OpenVINO, held against MXNet: every model card, trained networks.

    python benchmarks/onnx_parity.py --out benchmarks/results/onnx-parity
    python benchmarks/onnx_parity.py --network resnet50 --engine openvino

Cards have random weights, 10 of the built-in photographs for calibration and 20 to compare on; their predictions mean
nothing, their kernels and sizes are real. The trained networks of trained.toml (in $QUANTKIT_REAL_DATA) are quantized
with the default preset and compared on all test images; the recurrent networks that ship, on all test sequences, in
the form of the file whose LSTM layers the engine runs in INT8. Each file is checked by ONNX's checker as it is written.
Cosine and top-1 are those with MXNet's INT8 network on the same images; beside them is what INT8 itself changes, by
the images of calibration. Scores of every step have no top-1. Kernels are what the engine says that it ran. Needs the
extras onnx, onnxruntime and openvino.
"""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Optional

import numpy as np
from accuracy_rows import BATCH, prepared_model
from command_line import Document, arguments, data_root, rows_page, run, table, write_rows
from recurrent_accuracy import SCRIPTS, task_of

from quantkit.api import quantize
from quantkit.backends.registry import DEPLOYED_ONNX
from quantkit.bundle import read_bundle
from quantkit.bundle.export import export_onnx
from quantkit.bundle.file_names import lstm_form
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
    """A network, what it is calibrated with, and what the engines are compared on (float32, as it reads it)."""

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
    for rows in _measured(options.network or [""], options.engine or list(DEPLOYED_ONNX)):
        for row in rows:
            found.append(row)
            print(_line(asdict(row)), flush=True)
        if options.out is not None:
            write_rows(options.out, command, found, page)


def _measured(parts: Sequence[str], engines: Sequence[str]) -> Iterator[Iterable[Row]]:
    """The rows of each network whose name contains one of ``parts``."""
    yield from (_rows(subject, engines) for subject in _trained(parts))
    yield from (recurrent_rows(name, engines) for name in SCRIPTS if any(part in name for part in parts))
    yield from (_rows(subject, engines) for subject in _of_cards(parts))


def _trained(parts: Sequence[str]) -> Iterator[Subject]:
    suite = tomllib.loads(Path(__file__).with_name("trained.toml").read_text())
    for network in suite["network"]:
        if any(part in network["model"] for part in parts):
            root = data_root()
            model, data = prepared_model(network, suite, root), suite["data"][network["data"]]
            count = max(data["calibration_samples"])
            chosen = take(load_data(str(root / data["calibration"])), count)
            yield Subject(model, chosen, count, _images(model, str(root / data["test"]), None))


def _of_cards(parts: Sequence[str]) -> Iterator[Subject]:
    for card in cards():
        images = len(card.input_shape) == 3
        if images and any(part in card.name for part in parts) and card.params is None:
            model = load_model(card.name, weights="random", quiet=True)
            yield Subject(model, "builtin", _CARD_CALIBRATION, _images(model, "builtin", _CARD_IMAGES))


def _images(model: Model, data: str, count: Optional[int]) -> np.ndarray:
    found = batches(load_data(data), model.preprocess, model.input_shape, BATCH, count)
    return np.concatenate([batch.data for batch in found])


def recurrent_rows(name: str, engines: Sequence[str]) -> list[Row]:
    """The rows of a recurrent network that ships, made in a process of its own: an LSTM takes instructions from others.

    Args:
        name: one of ``recurrent_accuracy.SCRIPTS``.
        engines: those to compare.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_recurrent_rows, name, engines).result()


def _recurrent_rows(name: str, engines: Sequence[str]) -> list[Row]:
    task = task_of(name)
    subject = Subject(task.model, task.calibration, len(task.calibration), task.test.astype(np.float32))
    return list(_rows(subject, engines))


def _rows(subject: Subject, engines: Iterable[str]) -> Iterator[Row]:
    model = subject.model
    quantized = quantize(model, subject.calibration, QuantizationConfig(num_samples=subject.samples))
    if quantized.agreement is None:
        raise TypeError("a network was quantized without being compared with FP32")
    with tempfile.TemporaryDirectory() as name:
        bundle = read_bundle(quantized.save(Path(name) / "bundle", formats=("mxnet", "onnx")))
        export_onnx(model, Path(name) / "fp32.onnx")
        fp32_size = (Path(name) / "fp32.onnx").stat().st_size
        for engine in engines:
            content = bundle.onnx(lstm_form(engine)) or b""
            test = (subject.test[start : start + BATCH] for start in range(0, len(subject.test), BATCH))
            found = engine_parity(bundle, content, engine, test, BATCH)
            if found.images is None or found.precision is None:
                raise TypeError("a network was compared on its samples, in an engine with kernels")
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
    same = "" if outputs["same"] is None else f"{100 * outputs['same'] / outputs['images']:.2f}"
    cells = [
        row["network"], row["weights"], f"{row['int8_size'] / 1e6:.2f}", f"{row['int8_size'] / row['fp32_size']:.3f}",
        f"{row['engine']} {row['version']}", kernels,
        ", ".join((*precision["left"], *precision["planned"])) or "none",
        str(outputs["images"]), same, f"{outputs['cosine']:.5f}",
        f"{row['int8_cosine']:.5f}",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    run(main)
