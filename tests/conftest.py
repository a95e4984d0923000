"""Fixtures for the tests of several packages."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import Phase, settings

from tests import numpy_engine, skips
from tests.requirements import REAL_DATA, demanded, requires
from tests.turns import turn_of

if TYPE_CHECKING:
    from quantkit.bundle.quantized_model import QuantizedModel
    from quantkit.fusion.fused_model import FusedModel

# Who starts the tests in a shell's background or by nohup has them ignore signals, and with them all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# The same examples in every run; HYPOTHESIS_PROFILE=long looks for others, and prints how to repeat what it finds.
settings.register_profile("short", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("long", max_examples=1000, deadline=None, print_blob=True)
# For mutants it is enough that an example fails: which is the simplest takes minutes to find.
settings.register_profile("mutants", settings.get_profile("short"), phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

SKIPPED, UNEXPECTED = pytest.StashKey[Mapping[str, int]](), pytest.StashKey[list[str]]()


# What tests that are not about time measure, in seconds.
SHORT = {
    "quantkit.evaluation.latency._SECONDS": 0.1,
    "quantkit.mixed_precision.measurements._TRIAL_SECONDS": 0.02,
    "quantkit.mixed_precision.measurements._CHECK_SECONDS": 0.05,
    "quantkit.deployment.fastest._SECONDS": 0.1,
}


@pytest.fixture(autouse=True)
def short_measurements(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests ask what becomes of measurements; only those marked ``timing`` wait for exact ones."""
    if request.node.get_closest_marker("timing") is None:
        for constant, seconds in SHORT.items():
            monkeypatch.setattr(constant, seconds)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Shares of the tests, for runs in turns; see ``turns.py``."""
    for name, which in (("--long", "tests with the marker long"), ("--part", "files")):
        parser.addoption(name, type=turn_of, default="1/1", metavar="K/N", help=f"the Kth of N shares of the {which}")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a misspelt QUANTKIT_REQUIRE before any test; load the engine where all tests run in forked processes."""
    demanded(os.environ.get("QUANTKIT_REQUIRE", ""))
    if os.environ.get("QUANTKIT_TEST_ENGINE") == "forked":
        from quantkit.backends.mxnet.compat import load_mxnet

        load_mxnet()
        for name in ("onnx", "onnxruntime"):
            import_module(name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark all tests that need MXNet, and that run INT8 networks in it, so that they can be selected; keep a share."""
    left = [item for item in items if not _has_turn(config, item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if _has_turn(config, item)]
    for item in items:
        for fixture, marker in (("engine", "engine"), ("int8_engine", "int8")):
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)


def _has_turn(config: pytest.Config, item: pytest.Item) -> bool:
    name, is_long = item.nodeid, item.get_closest_marker("long") is not None
    return config.getoption("--part").has(name.split("::")[0]) and (not is_long or config.getoption("--long").has(name))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Carry out the marker ``requires``."""
    for mark in item.iter_markers("requires"):
        requires(*mark.args)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let shares be empty; where requirements are demanded, fail for skips that are not in the table, ``skips.py``."""
    if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.getoption("--part").number > 1:
        session.exitstatus = pytest.ExitCode.OK
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    skipped = skips.counted(reporter.stats.get("skipped", []))
    session.config.stash[SKIPPED] = skipped
    if not os.environ.get("QUANTKIT_REQUIRE"):
        return
    if found := skips.unexpected(skipped, skips.read_table(), skips.installed_engine(), skips.this_machine()):
        session.config.stash[UNEXPECTED] = found
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests were skipped for what, and which should not have been."""
    for name, count in sorted(config.stash.get(SKIPPED, {}).items()):
        terminalreporter.write_line(f"skipped for lack of {name}: {count}")
    if (seed := config.getoption("randomly_seed", None)) is not None:
        terminalreporter.write_line(f"the order is that of --randomly-seed={seed}")
    for name in config.stash.get(UNEXPECTED, []):
        terminalreporter.write_line(f"not in {skips.TABLE.name}, so a failure: {name}", red=True)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of trained weights and labelled images that is not part of the project."""
    requires("real-data")
    return REAL_DATA


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """An installed engine, or NumPy in its place: see ``numpy_engine.py``."""
    if os.environ.get("QUANTKIT_TEST_ENGINE") == "numpy":
        with numpy_engine.in_place():
            yield
    else:
        requires("engine")
        _let_the_engine_choose_its_instructions()
        yield


def _let_the_engine_choose_its_instructions() -> None:
    """Otherwise a process whose first network has LSTM layers does without VNNI, which other tests count on."""
    from quantkit.backends.mxnet.execute import run
    from tests.networks import DATA, Builder

    b = Builder()
    run(b.graph(b.dense("dense", DATA, 4, 4)), {"data": np.ones((1, 4), np.float32)})


@pytest.fixture(scope="session")
def int8_engine(engine: None) -> None:
    """An installed engine that runs INT8 networks on this processor."""
    requires("int8")


@pytest.fixture(scope="session")
def digits_fused(engine: None) -> FusedModel:
    """The digits network that ships, fused."""
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.load import load_model

    return fuse_model(load_model("digits_resnet20_v1"), "digits:train")


@pytest.fixture(scope="session")
def digits_int8(int8_engine: None, digits_fused: FusedModel) -> QuantizedModel:
    """The digits network in INT8, calibrated with 8 images."""
    from quantkit.bundle.quantized_model import lower, measure_agreement
    from quantkit.quantization.algorithms.stage import apply_algorithms, plan
    from quantkit.quantization.calibrate import calibrate

    table = calibrate(digits_fused, "digits:train", 8)
    adjusted = apply_algorithms(digits_fused, table, plan(digits_fused, table), "digits:train", "none")
    return measure_agreement(lower(digits_fused, table, adjusted), "digits:train")


@pytest.fixture(scope="session")
def digits_usual(int8_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the digits network in INT8 that says what is usual of 64 images. Do not alter it."""
    import quantkit

    requires("onnx")
    config = quantkit.QuantizationConfig(num_samples=64, preset="fast")
    quantized = quantkit.quantize("digits_resnet20_v1", "digits:train", config)
    return quantized.save(tmp_path_factory.mktemp("usual") / "digits", formats=("mxnet", "onnx"))


@pytest.fixture(scope="session")
def digits_onnx(digits_int8: QuantizedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the digits network in INT8 that holds its ONNX file. Do not alter it."""
    requires("onnx")
    return digits_int8.save(tmp_path_factory.mktemp("onnx") / "digits", formats=("mxnet", "onnx"))
