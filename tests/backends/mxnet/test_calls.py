from __future__ import annotations

import os

import numpy as np
import pytest

from quantkit.backends.mxnet.calls import engine_errors, failures
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.execute import run
from quantkit.errors import EngineError, ModelError
from tests.networks import images, residual_v1

pytestmark = pytest.mark.usefixtures("engine")


def test_the_users_environment_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(residual_v1(), {"data": images()})[0]
    monkeypatch.setenv("MXNET_SUBGRAPH_BACKEND", "MKLDNN")
    np.testing.assert_array_equal(run(residual_v1(), {"data": images()})[0], expected)
    assert os.environ["MXNET_SUBGRAPH_BACKEND"] == "MKLDNN"


# As MXNet 1.9 puts them, the C++ stack first, and as 1.6 does, last.
MESSAGES = {
    "\n".join(["Traceback (most recent call last):", '  File "a.cc", line 7', "MXNetError: Check failed: a == b"]): (
        "MXNetError: Check failed: a == b"
    ),
    "[07:00:00] a.cc:7: Check failed: a == b\nStack trace:\n  [bt] (0) libmxnet.so": (
        "[07:00:00] a.cc:7: Check failed: a == b"
    ),
    "of one line": "of one line",
    "": "",
}


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize(
    "kind", ["MXNetError", "AttributeError", "IndexError", "NotImplementedError", "TypeError", "ValueError",
             "MemoryError"],
)  # fmt: skip
def test_each_error_of_the_engine_is_one_line_of_ours(kind: str, message: str) -> None:
    mxnet = load_mxnet()
    error = {each.__name__: each for each in failures()}[kind](message)
    with pytest.raises(EngineError) as caught, engine_errors("do it"):
        raise error
    assert str(caught.value) == f"MXNet {mxnet.__version__} cannot do it: {MESSAGES[message]}"
    assert caught.value.__cause__ is error


def test_every_error_that_the_engine_names_is_expected() -> None:
    """MXNet raises the class of Python's that its message in C++ begins with: those that it has listed."""
    listed = getattr(load_mxnet().base, "error_types", {"MXNetError": load_mxnet().base.MXNetError})
    assert all(issubclass(each, failures()) for each in listed.values())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ModelError("ours"), KeyError("a mistake"), OSError("no file")])
def test_other_errors_stay_what_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, engine_errors("do it"):
        raise error
    assert caught.value is error
