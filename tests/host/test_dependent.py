"""Programs that end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quantkit.host.children import descendants
from quantkit.host.dependent import dependent
from tests.processes import environment

_STARTS_ONE = "import subprocess, sys; from quantkit.host.dependent import dependent; subprocess.run(dependent({}))"


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for the program that it has started."""
    process = subprocess.Popen([sys.executable, "-c", _STARTS_ONE.format(["sleep", "600"])], env=environment())
    yield process
    process.kill()
    process.wait()


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def until(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_it_ends_with_its_parent_however_that_ends(parent: subprocess.Popen[bytes], number: int) -> None:
    child = next(each for _ in until(30) for each in descendants(parent.pid) if command_of(each).strip() == "sleep 600")
    parent.send_signal(number)
    parent.wait()
    assert any(command_of(child) == "" for _ in until(10))


def test_what_it_says_and_its_exit_code_are_its_own() -> None:
    done = subprocess.run(dependent(["sh", "-c", "echo $0 $1; exit 7", "a b", "c"]), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "a b c\n")


def test_it_does_not_begin_where_its_parent_has_ended(tmp_path: Path) -> None:
    command = dependent(["touch", str(tmp_path / "begun")])
    own = command.index(str(os.getpid()))
    assert subprocess.run([*command[:own], str(os.getppid()), *command[own + 1 :]]).returncode == 1
    assert not (tmp_path / "begun").exists()


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    done = subprocess.run(dependent([str(tmp_path / "nothing")]), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (127, f"{tmp_path}/nothing cannot be started: No such file or directory\n")
