"""The real worker, in this interpreter's engine."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.symbols import auxiliary_params
from quantkit.backends.registry import DEPLOYED, MXNET
from quantkit.benchmark.workers.instance import Instance, worker_files
from quantkit.errors import InstanceError
from quantkit.formats.mxnet import nnvm
from quantkit.formats.mxnet.params import write_params
from quantkit.ir.graph import Graph, Tensor
from tests.networks import Builder
from tests.requirements import requires

pytestmark = pytest.mark.timing


@pytest.fixture
def graph(engine: None) -> Graph:
    builder = Builder()
    first = builder.conv("first", Tensor("data"), 3, 8)
    normal = builder.batch_norm("normal", first, 8)
    return builder.graph(builder.relu("relu", normal), first)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.npy"
    np.save(path, np.random.default_rng(0).normal(size=(2, 3, 16, 16)).astype(np.float32))
    return path


@pytest.fixture
def files(graph: Graph, tmp_path: Path) -> dict[str, str]:
    auxiliary = auxiliary_params(graph)
    named = {f"{'aux' if name in auxiliary else 'arg'}:{name}": value for name, value in graph.params.items()}
    (tmp_path / "net.json").write_text(nnvm.serialize(graph))
    with (tmp_path / "net.params").open("wb") as file:
        write_params(file, named)
    return {"symbol": str(tmp_path / "net.json"), "params": str(tmp_path / "net.params")}


@pytest.fixture
def instance() -> Iterator[Instance]:
    with Instance([sys.executable], {**os.environ, "MXNET_SUBGRAPH_BACKEND": "default"}, cpus=[_last_cpu()]) as started:
        yield started


def _last_cpu() -> int:
    return max(os.sched_getaffinity(0))


def test_it_computes_what_the_network_computes(
    instance: Instance, graph: Graph, files: dict[str, str], data: Path, tmp_path: Path
) -> None:
    loaded = instance.ask("load", 60, files=files)
    assert loaded["python"] == sys.version.split()[0] and any("gomp" in name for name in loaded["libraries"])
    instance.ask("bind", 60, input="data", data=str(data))
    instance.ask("run", 60)
    instance.ask("outputs", 60, path=str(tmp_path / "out.npz"))
    with np.load(tmp_path / "out.npz") as found:
        computed = [found[name] for name in found.files]
    assert len(computed) == 2
    for one, two in zip(run(graph, {"data": np.load(data)}), computed):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
    assert os.sched_getaffinity(instance.pid) == {_last_cpu()}


def test_reading_outputs_starts_no_threads(files: dict[str, str], tmp_path: Path) -> None:
    """One output is in a layout of oneDNN's; libgomp's threads would sleep after each operator if they were more."""
    requires("two-cpus")
    np.save(tmp_path / "large.npy", np.ones((2, 3, 64, 64), np.float32))
    with Instance([sys.executable], {**os.environ, "OMP_NUM_THREADS": "2"}) as anywhere:
        anywhere.ask("load", 60, files=files)
        anywhere.ask("bind", 60, input="data", data=str(tmp_path / "large.npy"))
        anywhere.ask("run", 60)
        before = len(os.listdir(f"/proc/{anywhere.pid}/task"))
        anywhere.ask("outputs", 60, path=str(tmp_path / "out.npz"))
        assert len(os.listdir(f"/proc/{anywhere.pid}/task")) == before


def test_openmp_that_binds_threads_leaves_all_processors_to_be_counted() -> None:
    cpus = sorted(os.sched_getaffinity(0))[:2]
    requires("two-cpus")
    places = {"OMP_PROC_BIND": "close", "OMP_PLACES": ",".join(f"{{{cpu}}}" for cpu in cpus)}
    before = "import ctypes, os, runpy; os.sched_setaffinity(0, {cpus}); "
    after = "; print(sorted(os.sched_getaffinity(0)))"
    found = [
        subprocess.run(
            [sys.executable, "-I", "-c", before.format(cpus=cpus) + step + after],
            env={**os.environ, **places},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for step in (
            'ctypes.CDLL("libgomp.so.1")',
            f"runpy.run_path({str(worker_files(MXNET.name)[1])!r})['load_openmp']()",
        )
    ]
    # The first shows what the second is there for.
    assert found == [str(cpus[:1]), str(cpus)]


def test_measuring_starts_at_the_barrier_and_ends_after_the_time(
    instance: Instance, files: dict[str, str], data: Path
) -> None:
    instance.ask("load", 60, files=files)
    instance.ask("bind", 60, input="data", data=str(data))
    warm = instance.ask("warm", 60, limit=int(5e9), least=2)
    assert len(warm["starts"]) == len(warm["ends"]) >= 2 and warm["steady"]
    start = time.monotonic_ns() + 100_000_000
    stop = start + 500_000_000
    measured = instance.ask("measure", 60, start=start, stop=stop, least=1)
    starts, ends = np.array(measured["starts"]), np.array(measured["ends"])
    assert start <= starts[0]
    assert (starts < stop).all() and ends[-1] >= stop
    assert (ends > starts).all() and (starts[1:] >= ends[:-1]).all()


def test_a_run_lasts_until_its_outputs_are_there(instance: Instance, files: dict[str, str], tmp_path: Path) -> None:
    instance.ask("load", 60, files=files)
    medians = []
    for shape in ((1, 3, 8, 8), (64, 3, 128, 128)):
        np.save(tmp_path / "some.npy", np.zeros(shape, np.float32))
        instance.ask("bind", 60, input="data", data=str(tmp_path / "some.npy"))
        found = instance.ask("warm", 60, limit=0, least=5)
        medians.append(np.median(np.subtract(found["ends"], found["starts"])))
    # Sixteen thousand times the pixels; the engine takes either order in the same time.
    assert medians[1] > 20 * medians[0]


def test_a_slow_start_is_no_reason_to_measure_nothing(instance: Instance, files: dict[str, str], data: Path) -> None:
    instance.ask("load", 60, files=files)
    instance.ask("bind", 60, input="data", data=str(data))
    past = time.monotonic_ns() - 1_000_000_000
    assert len(instance.ask("measure", 60, start=past, stop=past, least=3)["ends"]) == 3


def test_what_the_engine_refuses_is_told(instance: Instance, engine: None, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"nodes": []}')
    (tmp_path / "bad.params").write_bytes(b"")
    with pytest.raises(InstanceError, match="could not load") as caught:
        instance.ask("load", 60, files={"symbol": str(tmp_path / "bad.json"), "params": str(tmp_path / "bad.params")})
    assert caught.value.kind == "crashed"


@pytest.mark.parametrize(
    "path", {path for engine in DEPLOYED for path in worker_files(engine)}, ids=lambda path: path.stem
)
def test_its_files_are_for_old_interpreters_and_use_nothing_of_each_other(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 7))
    modules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module).split(".")[0])
    engine = path.stem.partition("_")[2]
    assert modules - {"numpy", engine, "distutils", "requests"} <= sys.stdlib_module_names
    outside = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    # Nothing heavy is imported before it is bound.
    assert not {"numpy", engine} & outside
