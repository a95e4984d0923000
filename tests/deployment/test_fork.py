"""A Predictor in a forked process: a clear error instead of waiting for ever, whatever the parent's threads did."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from quantkit.backends.mxnet.calls import engine_calls
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.backends.registry import DEPLOYED
from quantkit.bundle import Bundle, read_bundle
from quantkit.deployment.predictor import Predictor
from quantkit.files.files import home
from tests.requirements import requires

LIMIT = 60

# What the engines do to Python's warning of forks in processes with threads does not matter here.
pytestmark = [pytest.mark.usefixtures("int8_engine"), pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


@pytest.fixture(scope="module", params=DEPLOYED)
def runtime(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name != "mxnet":
        requires(name)
    return name


@pytest.fixture(scope="module")
def bundle(digits_onnx: Path) -> Bundle:
    return read_bundle(digits_onnx)


def in_a_fork(work: Callable[[], str]) -> str:
    """What a function returns, or the error that it raises, in a forked process, which has a limit of time."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT)
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}: {signal.SIGALRM.value} is waiting for ever"
    return said


@contextmanager
def predicting(predictor: Predictor, image: np.ndarray) -> Iterator[None]:
    """Another thread predicts meanwhile, so that locks are held and the engine works when the process is forked."""
    begun, enough = threading.Event(), threading.Event()

    def work() -> None:
        while not enough.is_set():
            predictor.predict(image)
            begun.set()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(LIMIT)
        yield
    finally:
        enough.set()
        thread.join()


@pytest.mark.parametrize("busy", [False, True])
def test_predicting_is_refused(bundle: Bundle, runtime: str, busy: bool) -> None:
    predictor = Predictor(bundle, engine=runtime)
    images = np.repeat(bundle.sample.input, 16, axis=0)
    expected = predictor.predict(images)
    if busy:
        with predicting(predictor, images):
            said = in_a_fork(lambda: str(predictor.predict(images)))
    else:
        said = in_a_fork(lambda: str(predictor.predict(images)))
    assert said.startswith(f"ForkError: the Predictor of {bundle.manifest.name!r} was loaded in process {os.getpid()}")
    assert "spawn" in said
    np.testing.assert_array_equal(predictor.predict(images), expected)


def test_a_new_one_works_or_says_why_not(bundle: Bundle, runtime: str) -> None:
    predictor = Predictor(bundle, engine=runtime)
    images = np.repeat(bundle.sample.input, 16, axis=0)

    def anew() -> str:
        return str(Predictor(read_bundle(bundle.directory), engine=runtime).predict(images).shape)

    with predicting(predictor, images):
        said = in_a_fork(anew)
    if runtime == "openvino":
        assert said.startswith("ForkError: OpenVINO was loaded in process") and "spawn" in said
    else:
        assert said == "(16, 10)"


def test_what_a_predictor_stands_on_is_refused_too(bundle: Bundle) -> None:
    (name,) = bundle.graph.inputs
    executor = MxnetSession(bundle.graph, {name: bundle.sample.input.shape})

    def run() -> str:
        return str(executor.run({name: bundle.sample.input}))

    def resize() -> str:
        return str(executor.run({name: np.repeat(bundle.sample.input, 2, axis=0)}))

    assert in_a_fork(run).startswith("ForkError: the network was loaded in process")
    assert in_a_fork(resize).startswith("ForkError: the network was loaded in process")


def predicted(directory: Path, engine: str) -> tuple[int, ...]:
    bundle = read_bundle(directory)
    return Predictor(bundle, engine=engine).predict(bundle.sample.input).shape


def test_the_remedy(bundle: Bundle, runtime: str) -> None:
    Predictor(bundle, engine=runtime).predict(bundle.sample.input)
    with get_context("spawn").Pool(1) as pool:
        assert pool.apply(predicted, (bundle.directory, runtime)) == (1, 10)


def test_auto_does_not_remember_that_it_was_forked(bundle: Bundle, tmp_path: Path) -> None:
    requires("openvino")
    Predictor(bundle, engine="openvino")
    said = in_a_fork(lambda: str(Predictor(bundle, engine="auto")))
    assert said.startswith("ForkError: OpenVINO was loaded in process")
    assert not (home() / "engines").exists()


def test_a_fork_waits_until_no_run_is_under_way() -> None:
    forked = threading.Event()

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        forked.set()

    thread = threading.Thread(target=fork)
    with engine_calls("hold it"):
        thread.start()
        assert not forked.wait(0.5)
    thread.join(LIMIT)
    assert forked.is_set()
