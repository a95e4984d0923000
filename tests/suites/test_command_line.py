"""How the suites' scripts end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from quantkit.files.files import shipped

_ENDED = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from command_line import run
def main():
    os.kill(os.getpid(), int(sys.argv[2]))
    time.sleep(20)
run(main)
"""

_FAILING = """
import sys
sys.path.insert(0, sys.argv[1])
from command_line import run
from quantkit.errors import DataError
def main():
    raise DataError("no such images")
run(main)
"""


def script(source: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", source, str(shipped("benchmarks")), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=40)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_script(number: signal.Signals) -> None:
    assert script(_ENDED, int(number)).returncode == 128 + number


def test_an_error_is_one_line() -> None:
    done = script(_FAILING)
    assert done.stderr.splitlines()[-1] == "error: no such images"
    assert "Traceback" not in done.stderr
    assert done.returncode != 0
