from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.builds.environments import open_build
from quantkit.benchmark.builds.probe import probe
from quantkit.errors import QuantkitError
from tests.benchmark.interpreters import Fake


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"version": "1.9.1", "features": ["MKLDNN"]}, "has mxnet 1.9.1 with MKL-DNN"),
        ({"features": ["MKLDNN"]}, "has mxnet 1.5.0 with MKL-DNN"),
        ({"engine": "onnxruntime"}, "has onnxruntime 1.5.0;"),
        ({"convolution_error": 1e-4}, "computes a convolution wrongly"),
        ({"convolution_error": float("nan")}, "computes a convolution wrongly"),
        ({"features": None}, "no Python interpreter"),
    ],
)
def test_an_engine_that_is_not_what_it_should_be_is_refused(fake: Fake, facts: dict[str, Any], words: str) -> None:
    fake.behave(facts=facts)
    with pytest.raises(QuantkitError, match=words):
        open_build("native")
    assert fake.left() == []


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("kill", "was killed by SIGSEGV"),
        ("garbage", "answered 'Hello"),
        ("exit:ModuleNotFoundError: No module named 'mxnet'", "mxnet must be installed there"),
        ("exit:OSError: libgomp.so.1: cannot open shared object file: No such file", "apt-get install libgomp1"),
        ("exit:OSError: libz.so.1: cannot open shared object file: No such file", "install the system library libz"),
        ("exit:SyntaxError: future feature annotations is not defined", "Python 3.7 or later"),
    ],
)
def test_the_reason_and_the_remedy_of_a_failed_probe(fake: Fake, fault: str, words: str) -> None:
    fake.behave(probe=fault)
    with pytest.raises(QuantkitError, match=words):
        probe("mine", fake.python)


def test_an_interpreter_that_hangs_is_ended(fake: Fake) -> None:
    fake.behave(probe="hang:still here")
    with pytest.raises(QuantkitError, match=r"no answer for 1 s\n    still here"):
        probe("mine", fake.python, patience=0.6)
    (call,) = fake.calls()
    assert not Path(f"/proc/{call['pid']}").exists()


def test_no_interpreter_is_led_to_the_modules_of_another(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/modules")
    monkeypatch.setenv("PYTHONHOME", "/python")
    open_build("native")
    for call in fake.calls():
        python = {name: value for name, value in call["environment"].items() if name.startswith("PYTHON")}
        assert python == {"PYTHONNOUSERSITE": "1"}, call["step"]
