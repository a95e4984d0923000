"""Latency of quantkit's INT8 ONNX files beside what each engine's own quantizer makes of the same FP32 file.

    QUANTKIT_REAL_DATA=DATA python benchmarks/onnx_speed.py --out benchmarks/results/onnx-speed

The networks are those of accuracy.toml, and ResNet-50 with random weights. quantkit's file runs in ONNX Runtime beside
that of its static quantization (MinMax, per channel), and in OpenVINO beside NNCF's (default preset), all four in
turns, at batch sizes 1 and 16, on all cores. How ratios are measured is said in turns.py. The peers quantize in an
environment of their own (`make .venv-peers/installed`, or --peers PYTHON); the engines are those installed here
(extras onnx, onnxruntime, openvino). OUT.json has every reading, in ms.
"""

from __future__ import annotations

import os
import platform
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Optional

import numpy as np
from accuracy_peers import Peers
from accuracy_rows import BATCH, prepared_model
from command_line import Document, data_root, rows_page, run, table, write_results
from turns import Timing, command_of, measured, milliseconds, ratio, timing_arguments

from quantkit.api import quantize
from quantkit.bundle.export import export_onnx
from quantkit.data.batches import batches
from quantkit.data.samples import take
from quantkit.data.sources import load_data
from quantkit.host.cpu import read_cpu
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.quantization.config import QuantizationConfig

_RANDOM = "resnet50"
_RANDOM_SAMPLES = 30
_COLUMNS = (
    "network", "batch", "rounds", "ONNX Runtime: quantkit, ms", "its own, ms", "ratio", "OpenVINO: quantkit, ms",
    "NNCF, ms", "ratio",
)  # fmt: skip


def main() -> None:
    """Measure every network named on the command line."""
    parser = timing_arguments(__doc__, rounds=8, runs=10)
    parser.add_argument("--peers", type=Path, metavar="PYTHON", help="default: that of .venv-peers")
    options = parser.parse_args()
    peers = Peers(options.peers)
    found: list[Timing] = []
    print("\n".join(table(_COLUMNS)), flush=True)
    for model, data, count in _subjects(options.network or [""]):
        for timing in _timings(model, data, count, peers, options.rounds, options.runs):
            found.append(timing)
            print(_line(timing), flush=True)
        if options.out is not None:
            _write(options.out, command_of("onnx_speed", options), found, peers)


def _subjects(parts: list[str]) -> Iterator[tuple[Model, Any, int]]:
    """The networks, with what they are calibrated on."""
    root = data_root()
    suite = tomllib.loads(Path(__file__).with_name("accuracy.toml").read_text())
    for network in suite["network"]:
        if any(part in network["checkpoint"] for part in parts):
            data = suite["data"][network["data"]]
            samples = load_data(str(root / data["calibration"]))
            yield prepared_model(network, suite, root), samples, max(data["calibration_samples"])
    if any(part in _RANDOM for part in parts):
        yield load_model(_RANDOM, weights="random", quiet=True), "builtin", _RANDOM_SAMPLES


def _timings(model: Model, data: Any, count: int, peers: Peers, rounds: int, runs: int) -> Iterator[Timing]:
    chosen = take(load_data(data), count)
    images = np.concatenate([each.data for each in batches(chosen, model.preprocess, model.input_shape, BATCH)])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_onnx(model, folder / "fp32.onnx")
        quantize(model, chosen, QuantizationConfig(num_samples=count)).to_onnx(folder / "quantkit.onnx")
        ptq = peers.quantized("ONNX Runtime MinMax", folder / "fp32.onnx", images, folder)
        nncf = peers.quantized("NNCF performance (default)", folder / "fp32.onnx", images, folder)
        for batch in (1, 16):
            data = np.ascontiguousarray(images[:batch])
            forms = {
                "onnxruntime quantkit": partial(_onnxruntime, folder / "quantkit.onnx", data),
                "onnxruntime own": partial(_onnxruntime, ptq, data),
                "openvino quantkit": partial(_openvino, folder / "quantkit.onnx", data),
                "openvino own": partial(_openvino, nncf, data),
            }
            yield Timing(model.name, batch, measured(forms, rounds, runs))


def _onnxruntime(path: Path, data: np.ndarray) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = _threads() or 0
    # Spinning threads of one session would disturb the next.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    return partial(session.run, None, {entry.name: data})


def _openvino(path: Path, data: np.ndarray) -> Callable[[], object]:
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    model.reshape(list(data.shape))
    threads = {"INFERENCE_NUM_THREADS": count} if (count := _threads()) else {}
    settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", **threads}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    return partial(request.infer, [data])


def _threads() -> Optional[int]:
    asked = os.environ.get("OMP_NUM_THREADS")
    return int(asked) if asked else None


def _line(timing: Timing) -> str:
    cells = [timing.network, str(timing.batch), str(len(timing.ticks["openvino own"]))]
    for engine in ("onnxruntime", "openvino"):
        own, other = f"{engine} quantkit", f"{engine} own"
        cells += [milliseconds(timing.ticks, own), milliseconds(timing.ticks, other), ratio(timing.ticks, own, other)]
    return f"| {' | '.join(cells)} |"


def _write(out: Path, command: str, found: list[Timing], peers: Peers) -> None:
    host: Mapping[str, str] = {
        "cpu": read_cpu().model,
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "python": platform.python_version(),
        "onnxruntime": version("onnxruntime"),
        "openvino": version("openvino"),
        "nncf": peers.versions["nncf"],
    }
    write_results(out, command, host, {"cells": [asdict(each) for each in found]}, page)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, (_line(Timing(**each)) for each in document["cells"]))


if __name__ == "__main__":
    run(main)
