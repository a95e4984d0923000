"""Other quantizers on an FP32 ONNX file: ONNX Runtime's, and NNCF's with OpenVINO.

    python -I peers.py                                         # the packages' versions and the modes, as JSON
    python -I peers.py MODE NET.onnx CALIBRATION.npy TEST.npy OUT.npz
    python -I peers.py quantize MODE NET.onnx CALIBRATION.npy FOLDER

The second quantizes with all calibration images and runs all test images, float32 arrays of shape (images, channels,
height, width), one at a time. OUT.npz gets ``output0``, ``output1`` and so on, each of shape (images, ...), and the
``seconds`` of quantization. The third writes the quantized network into FOLDER and prints the names of its files by
role (``onnx``, or ``xml`` and ``bin``) as JSON on the last line. It runs in an environment of its own
(`make .venv-peers/installed`, or the build ``peers`` of benchmarks), with the standard library, NumPy and the peers'
packages alone.

Every peer is used as its documentation says. ONNX Runtime: static quantization to QDQ, u8 activations and s8 weights
per channel, of the network that ``quant_pre_process`` has fused. Its entropy method counts in 128 bins and maps them to
128 levels, which leaves nothing to choose: in release 1.31 it equals MinMax. Of detectors it quantizes layers alone:
with the operators around non-maximum suppression in integers, which it would choose by itself, it ends the process that
runs them. Its dynamic quantization rounds
activations as they come and needs no images; for recurrent layers it is the one that ONNX Runtime documents. NNCF: of
the network as ``openvino.convert_model`` reads it. ``Core.read_model`` leaves batch normalization unfused, which costs
NNCF more than ten points of agreement on MobileNetV2. OpenVINO computes the rest in FP32, not in bfloat16.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

# No engine reports to its maker; see quantkit/host/telemetry.py.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

Run = Callable[[np.ndarray], list[np.ndarray]]
Quantizer = Callable[[Path, np.ndarray, Path], Path]


def _onnxruntime_session(path: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda image: list(session.run(None, {name: image}))


# What has integer kernels among a detector's operators before non-maximum suppression.
_LAYERS = ["Conv", "Gemm", "MatMul", "Add", "Relu", "Clip", "MaxPool", "AveragePool", "GlobalAveragePool"]


def _as_it_is(model: Path, calibration: np.ndarray, folder: Path) -> Path:
    return model


def _preprocess(model: Path, fused: Path) -> None:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    try:
        quant_pre_process(str(model), str(fused))
    except Exception:  # the inference of symbolic shapes gives up on detectors in many ways; it may be skipped
        quant_pre_process(str(model), str(fused), skip_symbolic_shape=True)


def _onnxruntime_int8(method: str, model: Path, calibration: np.ndarray, folder: Path) -> Path:
    import onnx
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    fused, quantized = folder / "fused.onnx", folder / "quantized.onnx"
    _preprocess(model, fused)
    graph = onnx.load(str(fused)).graph
    name = graph.input[0].name
    suppresses = any(node.op_type == "NonMaxSuppression" for node in graph.node)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._images: Iterator[dict[str, np.ndarray]] = iter({name: image[None]} for image in calibration)

        def get_next(self) -> Any:
            return next(self._images, None)

    quantize_static(
        str(fused), str(quantized), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
        calibrate_method=getattr(CalibrationMethod, method), op_types_to_quantize=_LAYERS if suppresses else None,
    )  # fmt: skip
    return quantized


def _onnxruntime_dynamic(model: Path, calibration: np.ndarray, folder: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    fused, quantized = folder / "fused.onnx", folder / "quantized.onnx"
    _preprocess(model, fused)
    quantize_dynamic(str(fused), str(quantized), per_channel=True, weight_type=QuantType.QInt8)
    return quantized


def _openvino_session(path: Path) -> Run:
    import openvino

    core = openvino.Core()
    model = openvino.convert_model(str(path)) if path.suffix == ".onnx" else core.read_model(str(path))
    compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda image: list(compiled([image]).values())


def _nncf(preset: str, fast: bool, model: Path, calibration: np.ndarray, folder: Path) -> Path:
    import nncf
    import openvino

    quantized = nncf.quantize(
        openvino.convert_model(str(model)), nncf.Dataset([image[None] for image in calibration]),
        preset=nncf.QuantizationPreset(preset), subset_size=len(calibration), fast_bias_correction=fast,
    )  # fmt: skip
    path = folder / "quantized.xml"
    openvino.save_model(quantized, str(path), compress_to_fp16=False)
    return path


PACKAGES = ("onnx", "onnxruntime", "nncf", "openvino")

SESSIONS: dict[str, Callable[[Path], Run]] = {"ONNX Runtime": _onnxruntime_session, "NNCF": _openvino_session}

MODES: dict[str, tuple[str, Quantizer]] = {
    "ONNX Runtime FP32": ("ONNX Runtime", _as_it_is),
    "ONNX Runtime MinMax": ("ONNX Runtime", partial(_onnxruntime_int8, "MinMax")),
    "ONNX Runtime Entropy": ("ONNX Runtime", partial(_onnxruntime_int8, "Entropy")),
    "ONNX Runtime Percentile": ("ONNX Runtime", partial(_onnxruntime_int8, "Percentile")),
    "ONNX Runtime dynamic": ("ONNX Runtime", _onnxruntime_dynamic),
    "OpenVINO FP32": ("NNCF", _as_it_is),
    "NNCF performance (default)": ("NNCF", partial(_nncf, "performance", True)),
    "NNCF mixed": ("NNCF", partial(_nncf, "mixed", True)),
    "NNCF accurate bias correction": ("NNCF", partial(_nncf, "performance", False)),
    "NNCF mixed, accurate bias correction": ("NNCF", partial(_nncf, "mixed", False)),
}


def main() -> None:
    """List the modes, or quantize in one of them, and run."""
    if len(sys.argv) == 1:
        modes = [{"mode": mode, "peer": peer, "int8": "FP32" not in mode} for mode, (peer, _) in MODES.items()]
        print(json.dumps({"versions": {name: version(name) for name in PACKAGES}, "modes": modes}))
        return
    if len(sys.argv) == 6 and sys.argv[1] == "quantize" and sys.argv[2] in MODES:
        mode, model, calibration, folder = sys.argv[2:]
        with tempfile.TemporaryDirectory() as scratch:
            network = MODES[mode][1](Path(model), np.load(calibration), Path(scratch))
            roles = {".onnx": ["onnx"], ".xml": ["xml", "bin"]}[network.suffix]
            written = {role: shutil.move(network.with_suffix(f".{role}"), folder) for role in roles}
        print("\n" + json.dumps({role: Path(path).name for role, path in written.items()}))
        return
    if len(sys.argv) != 6 or sys.argv[1] not in MODES:
        sys.exit(
            "usage: peers.py MODE NET.onnx CALIBRATION.npy TEST.npy OUT.npz or peers.py quantize MODE NET.onnx "
            f"CALIBRATION.npy FOLDER, with MODE one of {', '.join(MODES)}"
        )
    mode, model, calibration, test, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        peer, quantize = MODES[mode]
        run = SESSIONS[peer](quantize(Path(model), np.load(calibration), Path(folder)))
        seconds = time.perf_counter() - begin
        outputs = [run(image[None]) for image in np.load(test, mmap_mode="r")]
        if any(len(each) != 1 for image in outputs for each in image):
            sys.exit("an output does not begin with the batch")
    temporary = f"{out}.part.npz"
    named = {f"output{number}": np.concatenate(parts) for number, parts in enumerate(zip(*outputs))}
    np.savez(temporary, **named, seconds=seconds)
    os.replace(temporary, out)


if __name__ == "__main__":
    main()
