"""The worker's seam to engines: with one that is none, and with those that this interpreter has."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from quantkit.benchmark.builds.probe import probe
from quantkit.benchmark.workers.instance import WORKER, Instance, worker_files
from quantkit.errors import InstanceError, QuantkitError
from tests.requirements import package, requires

pytestmark = pytest.mark.timing

Start = Callable[..., Instance]

DATA = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
WEIGHT = np.random.default_rng(1).normal(size=(4, 3, 3, 3)).astype(np.float32)


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts instances, and ends them."""
    started: list[Instance] = []

    def start(engine: str, threads: int = 1, worker: Path = WORKER, places: int = 0) -> Instance:
        cpus = sorted(os.sched_getaffinity(0))[: places or threads]
        started.append(Instance([sys.executable], os.environ, cpus=cpus, worker=worker, engine=engine, threads=threads))
        return started[-1]

    yield start
    for instance in started:
        instance.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the worker, the engine that is none, and an input."""
    shutil.copy(WORKER, tmp_path)
    shutil.copy(Path(__file__).with_name("fake_engine.py"), tmp_path / "worker_fake.py")
    np.save(tmp_path / "data.npy", DATA)
    return tmp_path


def outputs(instance: Instance, path: Path) -> list[np.ndarray]:
    instance.ask("outputs", 60, path=str(path))
    with np.load(path) as found:
        return [found[name] for name in found.files]


def test_an_engine_is_the_file_beside_the_worker(start: Start, folder: Path) -> None:
    (folder / "factor").write_text("2.5")
    instance = start("fake", 1, folder / "worker.py")
    loaded = instance.ask("load", 60, files={"factor": str(folder / "factor")})
    assert loaded["fake"] == "1.2.3"
    assert loaded["settings"] == {"threads": 1}
    instance.ask("bind", 60, input="data", data=str(folder / "data.npy"))
    assert len(instance.ask("warm", 60, limit=0, least=2)["ends"]) == 2
    instance.ask("run", 60)
    computed, runs = outputs(instance, folder / "out.npz")
    np.testing.assert_array_equal(computed, 2.5 * DATA)
    assert runs == [3]
    assert instance.ask("kernels", 60) == {"event": "kernels", "int8": 3, "of": 4}
    assert "noise on standard output" in instance.last_lines()


def test_where_memory_runs_out_an_instance_ends_before_others(start: Start, folder: Path) -> None:
    (folder / "factor").write_text("1")
    instance = start("fake", 1, folder / "worker.py")
    instance.ask("load", 60, files={"factor": str(folder / "factor")})
    assert Path(f"/proc/{instance.pid}/oom_score_adj").read_text().strip() == "1000"


@pytest.mark.parametrize("command", ["warm", "measure"])
def test_turns_end_when_the_engines_threads_rest(
    start: Start, folder: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPIN", "0.25")
    (folder / "factor").write_text("1")
    instance = start("fake", 1, folder / "worker.py")
    instance.ask("load", 60, files={"factor": str(folder / "factor")})
    instance.ask("bind", 60, input="data", data=str(folder / "data.npy"))
    limits = {"limit": 0} if command == "warm" else {"start": time.monotonic_ns(), "stop": time.monotonic_ns()}
    turn = instance.ask(command, 60, least=1, **limits)
    assert time.monotonic_ns() - turn["ends"][-1] >= 200e6


def test_a_turn_ends_though_the_engines_threads_never_rest(
    start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPIN", "30")
    (folder / "factor").write_text("1")
    instance = start("fake", 1, folder / "worker.py")
    instance.ask("load", 60, files={"factor": str(folder / "factor")})
    instance.ask("bind", 60, input="data", data=str(folder / "data.npy"))
    instance.ask("warm", 10, limit=0, least=1)


def test_an_engine_that_is_not_there_is_told(start: Start, folder: Path) -> None:
    instance = start("other", 1, folder / "worker.py")
    with pytest.raises(InstanceError, match="worker_other"):
        instance.ask("load", 60, files={})


def installed(engine: str) -> str:
    requires(engine)
    return engine


@pytest.fixture(params=["onnxruntime", "openvino"])
def engine(request: pytest.FixtureRequest) -> str:
    return installed(request.param)


def conv_net(folder: Path, quantized: bool) -> tuple[Path, np.ndarray]:
    """An ONNX file of two convolutions with a ReLU between them, an open batch size, and what it makes of ``DATA``.

    Quantized, everything lies on the grid of its scale, so that INT8 computes the same.
    """
    onnx = package("onnx")
    from onnx import helper, numpy_helper

    nodes, constants = [], []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(value, name))
        return name

    def coded(name: str, scale: float, dtype: type) -> str:
        """The tensor through the integers and back."""
        if not quantized:
            return name
        parameters = [constant(f"{name}_scale", np.float32(scale)), constant(f"{name}_zero", dtype(0))]
        nodes.append(helper.make_node("QuantizeLinear", [name, *parameters], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *parameters], [f"{name}_dq"]))
        return f"{name}_dq"

    def weight(name: str, value: np.ndarray) -> str:
        if not quantized:
            return constant(name, value.astype(np.float32))
        integers = constant(f"{name}_q", (value * 32).astype(np.int8))
        parameters = [constant(f"{name}_scale", np.float32(1 / 32)), constant(f"{name}_zero", np.int8(0))]
        nodes.append(helper.make_node("DequantizeLinear", [integers, *parameters], [name]))
        return name

    first, second = np.round(WEIGHT * 30).clip(-127, 127) / 32, np.ones((4, 4, 1, 1)) / 2
    nodes.append(helper.make_node("Conv", [coded("data", 1 / 32, np.int8), weight("w", first)], ["c"]))
    nodes.append(helper.make_node("Relu", ["c"], ["r"]))
    nodes.append(helper.make_node("Conv", [coded("r", 1 / 4, np.uint8), weight("v", second)], ["s"]))
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("data", 1, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info(coded("s", 1.0, np.uint8), 1, ["batch", 4, 6, 6])],
        constants,
    )
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)

    def code(value: np.ndarray, scale: float, low: int, high: int) -> np.ndarray:
        return (np.round(value / scale).clip(low, high) * scale) if quantized else value

    data = code(DATA.astype(np.float64), 1 / 32, -128, 127)
    windows = np.stack([data[:, :, y : y + 6, x : x + 6] for y in range(3) for x in range(3)])
    hidden = np.maximum(np.einsum("kncyx,fck->nfyx", windows, first.reshape(4, 3, 9)), 0)
    result = np.einsum("ncyx,fc->nfyx", code(hidden, 1 / 4, 0, 255), second[:, :, 0, 0])
    return path, code(result, 1.0, 0, 255)


@pytest.mark.parametrize("quantized", [False, True])
def test_another_engine_computes_what_the_network_computes(
    start: Start, engine: str, folder: Path, quantized: bool
) -> None:
    path, expected = conv_net(folder, quantized)
    instance = start(engine)
    loaded = instance.ask("load", 60, files={"onnx": str(path)})
    assert loaded[engine] == probe("mine", sys.executable, engine).version
    for batch in (2, 1):
        np.save(folder / "data.npy", DATA[:batch])
        instance.ask("bind", 60, input="data", data=str(folder / "data.npy"))
        instance.ask("run", 60)
        (found,) = outputs(instance, folder / "out.npz")
        # A sum that lies between two integers may go to either.
        allowed = 1.0 if quantized else 1e-5 * np.abs(expected).max()
        assert found.shape == (batch, 4, 6, 6)
        assert np.abs(found - expected[:batch]).max() <= allowed
    told = instance.ask("kernels", 60)
    assert (told["int8"], told["of"]) == (2 if quantized else 0, 2)


def test_a_run_lasts_until_its_outputs_are_there(start: Start, engine: str, folder: Path) -> None:
    instance = start(engine)
    instance.ask("load", 60, files={"onnx": str(conv_net(folder, False)[0])})
    medians = []
    for batch in (1, 512):
        np.save(folder / "some.npy", np.zeros((batch, 3, 8, 8), np.float32))
        instance.ask("bind", 60, input="data", data=str(folder / "some.npy"))
        found = instance.ask("warm", 60, limit=0, least=9)
        medians.append(np.median(np.subtract(found["ends"], found["starts"])))
    assert medians[1] > 5 * medians[0]


def test_threads_are_as_many_as_asked_for_and_stay_where_the_instance_is(
    start: Start, engine: str, folder: Path
) -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    requires("two-cpus")
    path, _ = conv_net(folder, False)
    np.save(folder / "many.npy", np.zeros((4096, 3, 8, 8), np.float32))
    used = []
    for threads, places in ((1, 1), (1, 2), (2, 2)):
        instance = start(engine, threads, places=places)
        instance.ask("load", 60, files={"onnx": str(path)})
        instance.ask("bind", 60, input="data", data=str(folder / "many.npy"))
        used.append(working(instance))
        for task in Path(f"/proc/{instance.pid}/task").iterdir():
            with suppress(ProcessLookupError):
                assert os.sched_getaffinity(int(task.name)) <= set(cpus[:places])
        instance.kill()
    assert used == [1, 1, 2]


def test_openvino_does_not_take_fewer_threads_in_silence(start: Start, folder: Path) -> None:
    instance = start(installed("openvino"), 2, places=1)
    instance.ask("load", 60, files={"onnx": str(conv_net(folder, False)[0])})
    with pytest.raises(InstanceError, match="would use 1 threads, not 2"):
        instance.ask("bind", 60, input="data", data=str(folder / "data.npy"))


def test_openvino_runs_its_own_format(start: Start, folder: Path) -> None:
    openvino = package("openvino")
    path, expected = conv_net(folder, False)
    openvino.save_model(openvino.convert_model(path), folder / "net.xml", compress_to_fp16=False)
    instance = start("openvino")
    instance.ask("load", 60, files={"xml": str(folder / "net.xml"), "bin": str(folder / "net.bin")})
    instance.ask("bind", 60, input="data", data=str(folder / "data.npy"))
    instance.ask("run", 60)
    np.testing.assert_allclose(outputs(instance, folder / "out.npz")[0], expected, rtol=0, atol=1e-4)


def working(instance: Instance) -> int:
    """How many threads share the work: each with a twentieth of it or more, of a second of processor time at least.

    A thread that waits for work may look for some now and then, so those that took any time at all say nothing.
    """

    def times() -> dict[str, int]:
        found = {}
        for task in Path(f"/proc/{instance.pid}/task").iterdir():
            # A thread may end before it is looked at.
            with suppress(FileNotFoundError, ProcessLookupError):
                found[task.name] = int((task / "schedstat").read_text().split()[0])
        return found

    before = times()
    while True:
        instance.ask("warm", 60, limit=0, least=20)
        spent = [time - before.get(thread, 0) for thread, time in times().items()]
        if sum(spent) > 1e9:
            return sum(each > sum(spent) / 20 for each in spent)


def test_a_probe_of_another_engine(engine: str) -> None:
    build = probe("mine", sys.executable, engine)
    assert (build.engine, build.int8, build.mkldnn) == (engine, True, False)
    assert Path(build.library).is_file()
    assert build.features


def test_a_wrong_convolution_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.benchmark.builds.probe.WORKER", folder / "worker.py")
    assert probe("mine", sys.executable, "fake").version == "1.2.3"
    source = (folder / "worker_fake.py").read_text()
    (folder / "worker_fake.py").write_text(source.replace("return numpy.einsum(", "return 1.001 * numpy.einsum("))
    with pytest.raises(QuantkitError, match="convolution wrongly"):
        probe("mine", sys.executable, "fake")


def test_what_an_engine_refuses_is_told(start: Start, engine: str, folder: Path) -> None:
    (folder / "bad.onnx").write_bytes(b"no network")
    instance = start(engine)
    with pytest.raises(InstanceError, match="could not load"):
        instance.ask("load", 60, files={"onnx": str(folder / "bad.onnx")})
    path, _ = conv_net(folder, False)
    instance.ask("load", 60, files={"onnx": str(path)})


def test_every_engine_has_its_file() -> None:
    from quantkit.backends.registry import DEPLOYED

    assert all(path.is_file() for engine in DEPLOYED for path in worker_files(engine))
