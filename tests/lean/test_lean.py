"""Deployments without MXNet: the wheel beside NumPy 2, Pillow, pydantic and ONNX Runtime alone, on every Python.

`make test-lean` runs these in the environment with mxnet 1.9.1, which writes the bundle and says what to expect, on the
environments that ``prepare.py`` makes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from PIL import Image

from quantkit.backends.mxnet.execute import run
from quantkit.bundle import read_bundle
from quantkit.data.preparation import network_input
from quantkit.data.samples import take
from quantkit.data.sources import load_data
from quantkit.deployment.predictor import Predictor
from quantkit.fusion.fused_model import FusedModel
from tests.deployment.serving.conftest import ask
from tests.deployment.serving.process import server
from tests.lean.prepare import PYTHONS

pytestmark = [pytest.mark.requires("lean", "onnx", "onnxruntime"), pytest.mark.timing]

PROGRAM = Path(__file__).with_name("deployment.py")
LEAN = Path(os.environ.get("QUANTKIT_LEAN") or "absent").absolute()
COMPLETE = LEAN / "complete"
_IMAGES = 32
_RUNS = 9

# Of the packages' files as they are installed, 1,000,000 bytes each: ONNX Runtime and NumPy are 150 of them.
_MOST_MEGABYTES = 250


@pytest.fixture(scope="module")
def delivery(digits_usual: Path, digits_fused: FusedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a bundle, photographs of digits, and what this environment computes of them."""
    folder = tmp_path_factory.mktemp("delivery")
    shutil.copytree(digits_usual, folder / "bundle")
    bundle = read_bundle(digits_usual)
    pixels = np.stack([sample.image for sample in take(load_data("digits:test"), _IMAGES)])
    (folder / "images").mkdir()
    for index, image in enumerate(pixels):
        Image.fromarray(image).save(folder / "images" / f"{index:03}.png")
    shape = bundle.manifest.input.shape
    preprocessed = np.stack([network_input(bundle.preprocess, image, shape, "image") for image in pixels])
    np.savez(
        folder / "oracle.npz",
        pixels=pixels,
        preprocessed=preprocessed,
        int8=Predictor(bundle, engine="onnxruntime").predict(preprocessed),
        mxnet=Predictor(bundle, engine="mxnet").predict(preprocessed),
        fp32=run(digits_fused.graph, {bundle.manifest.input.name: preprocessed})[0],
    )
    return folder


def started(environment: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run an environment's Python where nothing leads to this checkout."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(environment / "bin" / "python"), "-I", *arguments]
    done = subprocess.run(command, cwd=environment, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0 or not check, done.stderr[-3000:]
    return done


def milliseconds(environment: Path, statement: str) -> float:
    """The median processor time of a statement, each in a new process: a busy machine does not count."""
    program = f"from time import process_time as now; t = now(); {statement}; print((now() - t) * 1e3)"
    return median(float(started(environment, "-c", program).stdout) for _ in range(_RUNS))


def megabytes(environment: Path) -> float:
    """The size of an environment's packages, compiled files left out."""
    files = (path for path in environment.glob("lib/**/*") if path.is_file() and "__pycache__" not in path.parts)
    return sum(path.stat().st_size for path in files) / 1e6


@pytest.mark.parametrize("version", PYTHONS)
def test_a_bundle_with_an_onnx_file_needs_four_packages(version: str, delivery: Path, tmp_path: Path) -> None:
    environment = LEAN / version
    if not environment.is_dir():
        pytest.skip(f"needs lean: there is no Python {version} on this machine")
    program = shutil.copy(PROGRAM, tmp_path)
    given = [str(delivery / name) for name in ("bundle", "images", "oracle.npz")]
    found = json.loads(started(environment, program, *given).stdout)
    assert found["python"].startswith(f"{version}.")
    assert found["numpy"].startswith("2.")
    assert found["images"] == _IMAGES
    size, taken = megabytes(environment), milliseconds(environment, "import quantkit")
    loaded = milliseconds(environment, f"import quantkit; quantkit.load({str(delivery / 'bundle')!r})")
    print(
        f"\nPython {found['python']}, NumPy {found['numpy']}: {size:.0f} MB; `import quantkit` {taken:.0f} ms, "
        f"with the bundle loaded in ONNX Runtime {loaded:.0f} ms (processor time, medians of {_RUNS})"
    )
    assert size < _MOST_MEGABYTES
    assert taken < 60


def test_bundles_are_served_there(delivery: Path) -> None:
    oracle = np.load(delivery / "oracle.npz")
    with server(["serve", f"net={delivery / 'bundle'}", "--port", "0"], delivery, LEAN / "serving") as told:
        url = told.split()[2].rstrip(",")
        pixels = oracle["pixels"]
        tensor = {"name": "data", "datatype": "UINT8", "shape": pixels.shape, "data": pixels.ravel().tolist()}
        (output,) = ask(url, "/v2/models/net/infer", {"inputs": [tensor]}).document["outputs"]
    found = np.float32(output["data"]).reshape(output["shape"])
    np.testing.assert_allclose(found, oracle["int8"], atol=1e-3 * np.abs(oracle["int8"]).max())


def test_the_command_line_works_there(delivery: Path) -> None:
    bundle = str(delivery / "bundle")
    helped = started(COMPLETE, "-m", "quantkit", "--help").stdout
    assert "quantize" in helped
    found = json.loads(started(COMPLETE, "-m", "quantkit", "doctor", "--json").stdout)
    assert found["worst"] != "fail"
    assert found["facts"]["extras"]["samples"] == ["scikit-image", "scikit-learn"]
    assert found["facts"]["extras"]["onnxruntime"] == []
    assert "relu" in started(COMPLETE, "-m", "quantkit", "explain", bundle).stdout.lower()
    refused = started(COMPLETE, "-m", "quantkit", "quantize", "resnet18_v1", check=False)
    assert refused.returncode == 2
    assert "pip install 'quantkit[onednn]'" in refused.stderr
    print(f"\nwith all that `pip install 'quantkit[onnxruntime]'` brings: {megabytes(COMPLETE):.0f} MB")
