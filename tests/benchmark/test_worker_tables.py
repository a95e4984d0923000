"""Workers know nothing of quantkit: what they say of the engines themselves is held to what the backends say."""

from __future__ import annotations

import os
import runpy
import sys
from types import SimpleNamespace

import pytest

from quantkit.backends import onnxruntime, openvino
from quantkit.backends.mxnet import compat
from quantkit.backends.registry import DEPLOYED, MXNET, ONNXRUNTIME, OPENVINO
from quantkit.benchmark.workers.instance import WORKER, worker_files
from quantkit.host import telemetry
from tests.requirements import requires

THREADS = 3


def part(engine: str) -> SimpleNamespace:
    """The worker's file for an engine."""
    return SimpleNamespace(**runpy.run_path(str(worker_files(engine)[1])))


def test_the_engines_are_those_of_deployment_in_their_order() -> None:
    assert runpy.run_path(str(WORKER))["ENGINES"] == (*DEPLOYED,)
    assert {path.name for path in WORKER.parent.glob("worker_*.py")} == {f"worker_{name}.py" for name in DEPLOYED}


def test_telemetry_is_turned_off_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    def left_by(turn_off: object) -> tuple[dict[str, str], dict[str, object]]:
        monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
        monkeypatch.delitem(sys.modules, "openvino_telemetry", raising=False)
        variables, modules = dict(os.environ), dict(sys.modules)
        turn_off()  # type: ignore[operator]
        return (
            {name: value for name, value in os.environ.items() if variables.get(name) != value},
            {name: module for name, module in sys.modules.items() if name not in modules},
        )

    load_engine = runpy.run_path(str(WORKER))["load_engine"]
    expected = left_by(telemetry.turn_off)
    assert expected == ({"ORT_DISABLE_TELEMETRY": "1"}, {"openvino_telemetry": None})
    assert left_by(lambda: load_engine(ONNXRUNTIME.name)) == expected


def test_the_names_that_numpy_gets_back_for_mxnet() -> None:
    assert compat.REMOVED_NUMPY_NAMES.items() <= part(MXNET.name)._REMOVED_NUMPY_NAMES.items()


def test_the_operators_of_onnx_runtime_in_each_precision() -> None:
    worker = part(ONNXRUNTIME.name)
    assert (worker._INT8, worker._FLOAT) == (onnxruntime.INT8, onnxruntime.FP32)


def test_the_threads_of_onnx_runtime() -> None:
    requires("onnxruntime")
    ours, theirs = onnxruntime.session_options(THREADS), part(ONNXRUNTIME.name)._options(THREADS)
    for name in ("intra_op_num_threads", "log_severity_level", "execution_mode", "graph_optimization_level"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.intra_op_num_threads == THREADS


def test_the_layers_and_integers_of_openvino() -> None:
    worker = part(OPENVINO.name)
    assert (worker._LAYERS, worker._INT8) == (openvino.LAYERS, openvino.INTEGERS)


def test_the_threads_and_the_precision_of_openvino() -> None:
    ours, theirs = openvino.compiler_settings(THREADS), part(OPENVINO.name)._settings(THREADS)
    shared = ours.keys() & theirs.keys()
    assert shared == {"INFERENCE_NUM_THREADS", "INFERENCE_PRECISION_HINT"}
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}
