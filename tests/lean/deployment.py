"""A deployment of a bundle, run by another Python: ``deployment.py BUNDLE IMAGES ORACLE.npz``.

Where this file lies there is no quantkit to import but the one that is installed. It prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import quantkit
from quantkit.host.cpu import read_cpu

# What may not be needed to predict.
OTHERS = (
    "mxnet", "gluoncv", "scipy", "skimage", "sklearn", "matplotlib", "jinja2", "onnx", "openvino", "mlperf_loadgen",
    "click", "rich", "tqdm", "requests", "safetensors", "filelock",
)  # fmt: skip


def main() -> None:
    """Predict from files, pixels and preprocessed arrays, and compare with what another environment computed."""
    bundle, images, oracle = sys.argv[1:]
    assert [name for name in OTHERS if find_spec(name)] == []
    package = Path(quantkit.__file__).parent
    assert package.is_relative_to(sys.prefix), package
    threads = os.environ.get("OMP_NUM_THREADS")
    assert (package / "shipped" / "models").is_dir()
    expected = np.load(oracle)
    predictor = quantkit.load(bundle)
    assert predictor.engine == "onnxruntime"
    # What MXNet would need is left as it was.
    assert os.environ.get("OMP_NUM_THREADS") == threads
    assert not hasattr(np, "float")

    files = sorted(Path(images).glob("*.png"))
    outputs = predictor.predict(files)
    assert outputs.dtype == np.float32
    np.testing.assert_allclose(outputs, expected["int8"], atol=1e-4)
    for given in (expected["pixels"], expected["preprocessed"], iter(expected["pixels"])):
        np.testing.assert_array_equal(predictor.predict(given), outputs)
    # Others' integers differ by a few steps at most, but where sums saturate for lack of VNNI; FP32 by what INT8 costs.
    if read_cpu().has_vnni:
        step = np.abs(expected["mxnet"]).max() / 127
        assert np.abs(outputs - expected["mxnet"]).max() <= 3 * step
    assert cosines(outputs, expected["fp32"]).min() > 0.98

    best = [classes[0] for classes in predictor.classify(files, top=1)]
    assert [label for label, _ in best] == [str(index) for index in expected["fp32"].argmax(axis=1)]
    assert all(0 < score <= 1 for _, score in best)
    np.testing.assert_array_equal(quantkit.load(bundle, engine="auto").predict(files), outputs)
    check_monitor(bundle, expected["pixels"])
    check_errors(files[0])
    print(json.dumps({"python": platform.python_version(), "numpy": np.__version__, "images": len(files)}))


def cosines(first: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of each image's outputs."""
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(other, axis=1)
    return np.asarray((first * other).sum(axis=1) / norms)


def check_monitor(bundle: str, pixels: np.ndarray) -> None:
    """A monitor tells changed images from those of calibration."""
    for given, drifts in ((pixels, False), (255 - pixels, True)):
        with quantkit.load(bundle, monitor=quantkit.Monitor(share=1.0)) as predictor:
            for image in given:
                predictor.predict(image)
            status = predictor.monitor_status()
        assert status is not None and status.watched == len(given)
        assert ("input.mean" in status.drifting) == drifts, status


def check_errors(image: Path) -> None:
    """What an extra brings is asked for by its name."""
    from quantkit.errors import ExtraMissing

    with tempfile.TemporaryDirectory() as folder:
        network = Path(folder, "net.onnx")
        network.write_bytes(image.read_bytes())
        for work, remedy in (
            (lambda: quantkit.load_model(network), "'quantkit[onnx]'"),
            (lambda: quantkit.load_data("builtin"), "'quantkit[samples]'"),
            (lambda: quantkit.load_model("resnet18_v1").graph, "'quantkit[onednn]'"),
        ):
            try:
                work()
            except ExtraMissing as error:
                assert remedy in str(error), error
            else:
                raise AssertionError(remedy)


if __name__ == "__main__":
    main()
