"""Reduced ranges on an emulated processor with AVX2 alone: the engines' own kernels tell whether they suffice."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from quantkit.formats.onnx.writing.model import onnx_model
from tests.lowering.test_qdq import lowered, network
from tests.networks import images
from tests.requirements import requires

pytestmark = pytest.mark.usefixtures("engine")

RUN = {
    "onnxruntime": """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
numpy.save(sys.argv[3], session.run(None, {"data": numpy.load(sys.argv[2])})[0])
""",
    "openvino": """
import sys, numpy, openvino
options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
compiled = openvino.Core().compile_model(sys.argv[1], "CPU", options)
numpy.save(sys.argv[3], compiled(numpy.load(sys.argv[2]))[0])
""",
}


def run(call: list[str], folder: Path) -> None:
    """Run a call that takes seconds, and again if it stalls, as the emulator does on rare occasions with threads."""
    for _ in range(2):
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(call, cwd=folder, check=True, capture_output=True, timeout=60)
            return
    subprocess.run(call, cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.mark.parametrize("engine_name", RUN)
def test_auto_computes_what_it_does_with_vnni(engine_name: str, tmp_path: Path) -> None:
    requires(engine_name)
    requires("qemu", "vnni")
    graph, plan, _ = lowered("inverted residual")
    # Most values at the ends of their ranges, where sums overflow.
    data = 20 * images()
    np.save(tmp_path / "data.npy", data)
    deviation = {}
    for reduce in ("none", "auto"):
        made = network(graph, plan, {"data": data.shape}, reduce_range=reduce)
        (tmp_path / "net.onnx").write_bytes(onnx_model(made.graph, made.shapes).SerializeToString())
        found = []
        for emulator in ([], ["qemu-x86_64", "-cpu", "Haswell-v4"]):
            run([*emulator, sys.executable, "-c", RUN[engine_name], "net.onnx", "data.npy", "found.npy"], tmp_path)
            found.append(np.load(tmp_path / "found.npy"))
        deviation[reduce] = np.abs(found[0] - found[1]).max() / np.abs(found[0]).max()
    assert deviation["auto"] < 1e-5
    assert deviation["none"] > 1e-3
