"""What is not the user's mistake: one line, and the traceback where it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from quantkit.backends.mxnet.calls import engine_errors
from quantkit.backends.mxnet.compat import load_mxnet
from tests.cli.conftest import ListedCards, Run


def test_unexpected_errors_are_one_line_unless_asked(run: Run, listed_cards: ListedCards) -> None:
    def broken() -> None:
        raise RuntimeError("something odd")

    listed_cards(broken)
    result = run("models")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: unexpected RuntimeError: something odd; run `quantkit --debug ...` for the traceback\n"
    )
    assert "in broken" in run("--debug", "models").stderr
    assert json.loads(run("models", "--json").stdout)["error"]["type"] == "RuntimeError"


def _ours() -> None:
    np.empty(1 << 57)


def _silent() -> None:
    raise MemoryError


def _in_the_engine() -> None:
    with engine_errors("run the network"):
        _ours()


def _by_the_engine() -> None:
    # As MXNet puts it.
    with engine_errors("run the network"):
        raise load_mxnet().base.MXNetError("MXNetError: Failed to allocate CPU Memory")


@pytest.mark.parametrize(
    ("broken", "kind", "what"),
    [
        (_ours, "MemoryError", "out of memory (Unable to allocate 1.00 EiB for an array with shape"),
        (_silent, "MemoryError", "out of memory; take fewer images"),
        (_in_the_engine, "EngineError", "cannot run the network: Unable to allocate 1.00 EiB"),
        (_by_the_engine, "EngineError", "Failed to allocate CPU Memory"),
    ],
)
def test_memory_that_is_lacking_is_one_line_with_the_remedy(
    run: Run, engine: None, listed_cards: ListedCards, broken: Callable[[], None], kind: str, what: str
) -> None:
    listed_cards(broken)
    result = run("models")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert what in line and line.startswith("Error: ")
    assert "take fewer images (--calib) or a smaller batch or --input-shape" in line
    assert "Traceback" in run("--debug", "models").stderr
    assert json.loads(run("models", "--json").stdout)["error"]["type"] == kind
