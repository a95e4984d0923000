"""What is faulted: each command's writing, with its computing done beforehand."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tests.faults.training_verbs import checkpoint, finetune
from tests.faults.verb import Verb, called, command, does, given, tree


def _network(count: int) -> tuple[Any, Any, Any]:
    from quantkit.bundle.quantized_model import lower
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.load import load_model
    from quantkit.quantization.algorithms.stage import apply_algorithms, plan
    from quantkit.quantization.calibrate import calibrate

    fused = fuse_model(load_model("digits_resnet20_v1"), "digits:train")
    table = calibrate(fused, "digits:train", count)
    adjusted = apply_algorithms(fused, table, plan(fused, table), "digits:train", "none")
    return fused, table, lower(fused, table, adjusted)


def quantize(base: Path) -> Verb:
    """A bundle in place of another."""

    def run_with(count: int) -> Callable[[], None]:
        fused, table, network = _network(count)
        arguments = ["quantize", "digits_resnet20_v1", "--calib-data", "digits:train", "--calib", str(count)]
        return called(
            [*arguments, "--out", "out", "--force", "--no-latency", "--quiet"],
            quantkit__stages__fuse_model=given(fused),
            quantkit__stages__calibrate=given(table),
            quantkit__stages__apply_algorithms=given(None),
            quantkit__stages__lower=given(None),
            quantkit__stages__measure_agreement=given(network),
            quantkit__bundle__summary__measured_kernels=given(()),
        )

    return command(base, "out", run_with(4), run_with(6))


def fuse(base: Path) -> Verb:
    """An FP32 bundle in place of an INT8 one."""
    fused, _, network = _network(4)
    arguments = ["fuse", "digits_resnet20_v1", "--out", "out", "--force", "--no-latency", "--quiet"]
    return command(
        base, "out", does(lambda: network.save("out", True)),
        called(arguments, quantkit__fusion__fused_model__fuse_model=given(fused)),
    )  # fmt: skip


def calibrate(base: Path) -> Verb:
    """A table in place of another."""

    def run_with(count: int) -> Callable[[], None]:
        fused, table, _ = _network(count)
        arguments = ["calibrate", "digits_resnet20_v1", "--out", "table.json", "--force", "--quiet"]
        return called(
            arguments,
            quantkit__fusion__fused_model__fuse_model=given(fused),
            quantkit__quantization__calibrate__calibrate=given(table),
        )

    return command(base, "table.json", run_with(4), run_with(6))


def export(base: Path) -> Verb:
    """An ONNX file in place of another; all of the command."""
    _, _, network = _network(4)
    network.save(base / "bundle")

    def run_with(opset: int) -> Callable[[], None]:
        out = ["--out", "model.onnx", "--opset", str(opset), "--force", "--quiet"]
        return called(["export", str(base / "bundle"), *out])

    return command(base, "model.onnx", run_with(13), run_with(17))


def predict(base: Path) -> Verb:
    """A picture in place of another; all of the command."""
    from PIL import Image

    from tests.tasks.networks import COLUMNS, RAW, ROWS, bundle, pixel_detector, pixels

    bundle(pixel_detector(), (3, ROWS, COLUMNS), RAW, ("cat",), base / "bundle")
    (base / "images").mkdir()
    Image.fromarray(pixels(((0.0, 0.0, 3.0, 6.0), 0.6, 0))).save(base / "images" / "a.png")

    def run_with(least: float) -> Callable[[], None]:
        options = ["--draw", ".", "--least-score", str(least), "--force", "--quiet"]
        return called(["predict", str(base / "bundle"), str(base / "images"), *options])

    return command(base, "a.png", run_with(0.9), run_with(0.5))


def analyze(base: Path) -> Verb:
    """An analysis in place of another."""
    from quantkit.diagnosis.layers.analyze import analyze as analyzed

    _, _, network = _network(4)
    network.save(base / "bundle")

    def run_with(count: int) -> Callable[[], None]:
        found = analyzed(base / "bundle", "digits:test", num_samples=count)
        out = ["--data", "digits:test", "--out", "why", "--force", "--quiet"]
        return called(
            ["analyze", str(base / "bundle"), *out], quantkit__diagnosis__layers__analyze__analyze=given(found)
        )

    return command(base, "why", run_with(4), run_with(6))


def aside(base: Path) -> Verb:
    """An analysis in place of another, on a file system that cannot exchange two names."""
    verb = analyze(base)
    before = tree(base / "before" / "why")

    def run() -> None:
        with mock.patch("quantkit.files.folders._exchanged", given(False)):
            verb.run()

    def state(work: Path) -> str:
        # Who is killed between the two steps leaves the older one aside, and the next command puts it back.
        kept = [tree(path) for path in work.glob(".why.*.quantkit-old")]
        return "old" if not (work / "why").exists() and kept == [before] else verb.state(work)

    return Verb(run, state, verb.remove)


def report(base: Path) -> Verb:
    """A report in place of another."""
    from quantkit.benchmark.results.result_files import write_cell, write_run
    from quantkit.report.write import make_report
    from tests.report.synthetic import INT8, NATIVE, results

    run = results(batches=(1,), contestants=(NATIVE, INT8))
    folder = base / "results"
    (folder / "cells").mkdir(parents=True)
    write_run(run.run, folder)
    for cell in run.cells:
        write_cell(cell, folder)

    def run_with(title: str) -> Callable[[], None]:
        made = make_report([run], title)
        return called(
            ["report", str(folder), "--out", "report", "--quiet"], quantkit__report__write__make_report=given(made)
        )

    return command(base, "report", run_with("old"), run_with("new"))


def profile(base: Path) -> Verb:
    """A trace in place of another."""
    from quantkit.backends.mxnet.peak import measured_peak
    from quantkit.backends.mxnet.profiler import record
    from quantkit.models.load import load_model

    graph = load_model("digits_resnet20_v1")
    peak = measured_peak()

    def run_with(runs: int) -> Callable[[], None]:
        recording = record(graph.graph, (1, *graph.input_shape), runs)
        return called(
            ["profile", "digits_resnet20_v1", "--out", "profile", "--force", "--quiet"],
            quantkit__diagnosis__profile__measure__record=given(recording),
            quantkit__diagnosis__profile__measure__measured_peak=given(peak),
        )

    return command(base, "profile", run_with(5), run_with(6))


def benchmark(base: Path) -> Verb:
    """A run in place of another, measured by workers that only sleep."""
    from quantkit.benchmark.measuring import schedule
    from quantkit.benchmark.measuring.runner import run_suite
    from quantkit.benchmark.results.result_files import read_results
    from quantkit.benchmark.results.run_folder import claimed, discard
    from quantkit.errors import QuantkitError
    from tests.benchmark.fakes import FakeWorkload, launch, run_of, suite

    schedule.ROUNDS, schedule._SLICE, schedule._WARM_UP = 2, 0.05, 0.02
    old, new = suite(("fp32",), batches=(1, 2)), suite(("fp32", "fused"))
    (base / "workload").mkdir()
    workloads = {
        each.name: FakeWorkload(base / "workload", {"fp32": {}, "fused": {}}, each.name) for each in new.networks
    }
    place = base / "before" / "run"

    def measured(toy: Any, folder: Path) -> Any:
        launches = {each.name: (launch(0),) for each in toy.contestants}
        return run_suite(toy, run_of(toy), workloads, launches, folder, given(None))

    def forced() -> None:
        with claimed(Path("run")):
            discard(Path("run"))
            found = measured(new, Path("run"))
        failed = [cell.failure.message for cell in found.cells if cell.failure]
        if failed:
            raise QuantkitError("; ".join(failed))

    with claimed(place):
        measured(old, place)
    before = tree(place)

    def state(work: Path) -> str:
        if tree(work / "run") == before:
            return "old"
        if not (work / "run" / "run.json").exists():
            return "new" if not any(name.endswith(".json") for name in tree(work / "run")) else "cells of no run"
        try:
            found = read_results(work / "run")
        except QuantkitError as error:
            return "new" if "were discarded" in str(error) else str(error)
        known = {(cell.batch, cell.contestant.name) for cell in found.cells}
        return "new" if known <= {(1, each.name) for each in new.contestants} else f"a mixture: {known}"

    def remove(work: Path) -> None:
        import shutil

        shutil.rmtree(work / "run")

    return Verb(does(forced), state, remove)


def store(base: Path) -> Verb:
    """The benchmark's cache of prepared networks: a checkpoint, files for another engine, inputs and outputs."""
    import numpy as np

    from quantkit.benchmark.workloads.store import Made, stored_array, stored_checkpoint, stored_files, stored_outputs

    fused, _, _ = _network(4)

    def made(folder: Path) -> dict[str, Path]:
        (folder / "network.onnx").write_bytes(b"onnx" * 5000)
        return {"onnx": folder / "network.onnx"}

    def action(key: str) -> Callable[[], None]:
        def stored() -> None:
            # An older file of the same key that does not fit its hash is made anew.
            stored_checkpoint("net", "k" * 16, lambda: Made(fused.graph, {"top1": float(len(key))}), given(None))
            stored_files("net", "k" * 16, made, given(None))
            stored_array(np.full(10, len(key), np.float32))
            stored_outputs("k" * 32, lambda: [np.full(10, 1.0, np.float32)])

        return does(stored)

    run = action("new")
    results: dict[str, bytes] = {}
    import shutil

    shutil.copytree(base / "before", base / "work", dirs_exist_ok=True)
    with contextlib.suppress(SystemExit):
        run()
    results = tree(base / "work" / "home")
    assert results
    # An older state: a checkpoint that was altered, and nothing else.
    shutil.copytree(base / "work" / "home", base / "before" / "home", dirs_exist_ok=True)
    for path in (base / "before" / "home").rglob("*"):
        if path.suffix in (".npy", ".npz"):
            path.unlink()
        elif path.suffix in (".params", ".onnx"):
            path.write_bytes(path.read_bytes()[:-1])

    def state(work: Path) -> str:
        found = tree(work / "home")
        before = tree(base / "before" / "home")
        wrong = [name for name in found if found[name] not in (results.get(name), before.get(name))]
        if wrong:
            return f"{wrong} half"
        return "new" if found == results else "old"

    return Verb(run, state, lambda work: shutil.rmtree(work / "home"))


VERBS: dict[str, Callable[[Path], Verb]] = {
    each.__name__: each
    for each in (
        *(quantize, fuse, calibrate, export, predict, checkpoint, finetune),
        *(analyze, aside, report, profile, benchmark, store),
    )
}
