"""What quantkit starts sends nothing: no connection, no sender's thread, no identifier kept for one.

Every program runs without ``CI``, which would silence some engines, and with an empty home folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.registry import DEPLOYED, ONNX_ENGINES
from quantkit.benchmark.builds.recipes import PEERS_SCRIPT
from quantkit.benchmark.workers.instance import WORKER
from quantkit.bundle.quantized_model import QuantizedModel
from tests.connections import Watched, watched
from tests.requirements import requires

pytestmark = pytest.mark.requires("seccomp")

ROOT = Path(__file__).parents[1]

# Variables by which the user, or where the tests run, might have turned something off.
SILENCING = ("CI", "TF_BUILD", "JENKINS_URL", "GITHUB_ACTIONS", "CIRCLECI", "NNCF_CI", "NNCF_DEV", "XDG_CACHE_HOME")

# Tells the threads that Python was asked for, and all that the process has in the end.
THREADS = """
import json, os, sys
asked = []
sys.addaudithook(lambda event, arguments: asked.append(str(arguments)) if "thread" in event else None)
def threads():
    print("THREADS", json.dumps([asked, len(os.listdir("/proc/self/task"))]))
"""

ONNX = """
import numpy
from quantkit.backends.registry import ONNX_ENGINES
session = ONNX_ENGINES[sys.argv[1]].backend().open_session(open(sys.argv[2], "rb").read())
(found,) = session.run({"data": numpy.zeros((1, 3, 32, 32), "float32")})
assert found.shape == (1, 10)
threads()
"""

MXNET = """
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.models.load import load_model
load_mxnet()
import gluoncv
load_model("digits_resnet20_v1").graph
threads()
"""

OTHERS = """
import mlperf_loadgen, requests
from quantkit.data.builtin import digits, photographs
from quantkit.data.samples import take
assert len(list(take(photographs(), 2))) == 2 and len(list(take(digits("test"), 2))) == 2
from matplotlib import pyplot
pyplot.figure().savefig("figure.svg")
threads()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


def run(home: Path, *command: object) -> Watched:
    """Run a program as a user would who has set nothing."""
    kept = {name: value for name, value in os.environ.items() if name not in (*SILENCING, "ORT_DISABLE_TELEMETRY")}
    environment = {
        **kept, "HOME": str(home), "QUANTKIT_HOME": str(home.parent / "quantkit"), "PYTHONPATH": str(ROOT),
        "MPLCONFIGDIR": str(home.parent), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    found = watched([*map(str, command)], environment, home.parent)
    assert found.returncode == 0, found.output
    return found


def sends_nothing(home: Path, *command: object) -> str:
    """Run a program, and see that it reached nobody and kept nothing; what it wrote to its output."""
    found = run(home, *command)
    assert found.reached == ()
    assert list(home.rglob("*")) == []
    return found.output


def test_an_attempt_is_seen_whoever_makes_it(home: Path) -> None:
    connect = "import socket; socket.socket().connect_ex(('192.0.2.1', {}))"
    send = "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 2))"
    forked = f"import os; os.fork() or os.execv({sys.executable!r}, ['python', '-c', {connect.format(3)!r}])"
    assert run(home, sys.executable, "-c", connect.format(1)).reached == ("192.0.2.1:1",)
    assert "192.0.2.1:2" in watched([sys.executable, "-c", send], {}, home.parent).reached
    assert run(home, sys.executable, "-c", forked).reached == ("192.0.2.1:3",)
    assert run(home, sys.executable, "-c", "import socket; a, b = socket.socketpair(); a.send(b'1')").reached == ()


@pytest.mark.parametrize("engine_name", ONNX_ENGINES)
def test_engines_that_run_onnx_files(engine_name: str, digits_int8: QuantizedModel, home: Path) -> None:
    requires("onnx", ONNX_ENGINES[engine_name].package)
    network = home.parent / "network.onnx"
    digits_int8.to_onnx(network)
    output = sends_nothing(home, sys.executable, "-c", THREADS + ONNX, engine_name, network)
    asked, count = json.loads(output.rpartition("THREADS ")[2])
    assert asked == []
    # Of one thread each, but that OpenVINO has some that wait for work.
    assert count == 1 or engine_name == "openvino"


@pytest.mark.parametrize("program", [MXNET, OTHERS], ids=["mxnet", "others"])
def test_the_other_packages(engine: None, program: str, home: Path) -> None:
    requires("loadgen")
    output = sends_nothing(home, sys.executable, "-c", THREADS + program)
    assert json.loads(output.rpartition("THREADS ")[2])[0] == []


@pytest.mark.parametrize("engine_name", DEPLOYED)
def test_workers_of_benchmarks(engine_name: str, home: Path) -> None:
    requires("engine" if engine_name == "mxnet" else engine_name)
    output = sends_nothing(home, sys.executable, "-I", WORKER, "probe", engine_name)
    assert f'"engine": "{engine_name}"' in output


@pytest.mark.parametrize("mode", ["ONNX Runtime FP32", "OpenVINO FP32"])
def test_other_quantizers(mode: str, digits_int8: QuantizedModel, home: Path) -> None:
    requires("onnx", "onnxruntime", "openvino")
    network, images, out = (home.parent / name for name in ("network.onnx", "images.npy", "out.npz"))
    digits_int8.to_onnx(network)
    np.save(images, np.zeros((2, 3, 32, 32), np.float32))
    sends_nothing(home, sys.executable, "-I", PEERS_SCRIPT, mode, network, images, images, out)
    assert out.is_file()


def test_a_command_and_what_it_starts(digits_onnx: Path, home: Path) -> None:
    requires("onnxruntime", "openvino")
    engines = ("--engine", "onnxruntime", "--engine", "openvino")
    output = sends_nothing(home, sys.executable, "-m", "quantkit", "verify", digits_onnx, *engines)
    assert "comparing openvino with MXNet" in output
