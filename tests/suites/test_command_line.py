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


@pytest.mark.parametrize("options", [["--rounds", "1"], ["--rounds", "-3"], ["--rounds", "many"], ["--runs", "0"]])
def test_too_few_readings_for_an_interval_are_refused_before_any(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    from turns import timing_arguments

    parser = timing_arguments("A suite.", rounds=5, runs=9)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(options)
    name, value = options
    assert (
        f"argument {name}: {value!r} is no whole number from {1 if name == '--runs' else 2} up"
        in capsys.readouterr().err
    )
    found = parser.parse_args(["--rounds", "2", "--runs", "1"])
    assert (found.rounds, found.runs) == (2, 1)
