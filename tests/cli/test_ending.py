"""What signals do to commands at work: nothing of theirs lives on, nothing half-written stays, older output does."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quantkit.files.temporary import is_temporary
from quantkit.host.children import descendants
from tests.cli.conftest import PROMPTLY, SHAPE, Run, start
from tests.processes import environment

QUANTKIT = (sys.executable, "-m", "quantkit")

# Chosen anew each time; the seed of one that fails is in its message.
SEED = int(os.environ.get("QUANTKIT_FAULTS_SEED") or time.time())


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def begun(process: subprocess.Popen[str], words: str) -> str:
    """What a process says on standard error before a line with these words."""
    assert process.stderr is not None
    said = ""
    while words not in (line := process.stderr.readline()):
        assert line or process.poll() is None, "it ended before it began"
        said += line
    return said


def ended_by(process: subprocess.Popen[str], number: int, after: float) -> tuple[int, str]:
    """Its exit code and last line, after a signal that it is sent a while after it has begun."""
    time.sleep(after)
    family = descendants(process.pid)
    process.send_signal(number)
    try:
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert_ended(family)
    return process.returncode, err.splitlines()[-1] if err else ""


def assert_ended(family: tuple[int, ...]) -> None:
    deadline = time.monotonic() + 10
    while (left := [pid for pid in family if lives(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, f"{left} live on"


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [(signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 129, "SIGHUP"), (signal.SIGINT, 130, "")],
)
def test_a_signal_ends_a_command_and_its_children(
    checkpoint: Path, int8_engine: None, tmp_path: Path, number: int, code: int, name: str
) -> None:
    (tmp_path / "tmp").mkdir()
    words = ["profile", checkpoint, "--input-shape", SHAPE, "--weights", "auto", "--out", "out", "--runs", 200000]
    process = start(tmp_path, *words, TMPDIR=str(tmp_path / "tmp"))
    begun(process, "taking the time")
    ended, said = ended_by(process, number, random.Random(SEED).uniform(0, 3))
    assert ended == code, f"seed {SEED}: {said}"
    assert said == f"interrupted{f' by {name}' if name else ''}; nothing was written", f"seed {SEED}"
    assert os.listdir(tmp_path) == ["tmp"] and os.listdir(tmp_path / "tmp") == []


_HELD = """
import sys, time
from quantkit.files import folders
from quantkit.__main__ import main

put_folder = folders.put_folder

def held(*arguments):
    if {done}:
        put_folder(*arguments)
    print("held", file=sys.stderr, flush=True)
    time.sleep(600)

folders.put_folder = held
main()
"""


@pytest.fixture(scope="module")
def quantizing(checkpoint: Path, samples: Path, int8_engine: None) -> list[str]:
    """A command that takes short, but for the images that calibrate."""
    words = ["quantize", checkpoint, "--calib-data", samples, "--input-shape", SHAPE, "--out", "out", "--force"]
    return [*map(str, words), "--no-latency", "--preset", "none", "--calib"]


@pytest.fixture(scope="module")
def older(quantizing: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("older")
    assert start(folder, *quantizing, "4").wait(120) == 0
    return folder / "out"


def held(quantizing: list[str], folder: Path, done: bool) -> subprocess.Popen[str]:
    """Stands still where a new bundle takes the place of the older: before that, or when it is done."""
    command = [sys.executable, "-c", _HELD.format(done=done), *quantizing, "8"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=pipe, stderr=pipe, text=True)
    begun(process, "held")
    return process


@pytest.mark.parametrize(("done", "kept"), [(False, "nothing was written"), (True, "out is complete")])
def test_a_signal_while_a_bundle_is_replaced(
    quantizing: list[str], older: Path, run: Run, tmp_path: Path, done: bool, kept: str
) -> None:
    shutil.copytree(older, tmp_path / "out")
    process = held(quantizing, tmp_path, done)
    assert ended_by(process, signal.SIGTERM, 0) == (143, f"interrupted by SIGTERM; {kept}")
    assert (tree(tmp_path / "out") == tree(older)) == (not done)
    assert os.listdir(tmp_path) == ["out"]
    assert run("verify", "out").exit_code == 0


def test_a_signal_ends_an_installation(tmp_path: Path) -> None:
    slow = tmp_path / "python"
    # Stands for an interpreter whose pip takes long, and has children of its own.
    slow.write_text("#!/bin/sh\necho $$ >> " + str(tmp_path / "pids") + "\nsleep 600 & sleep 600\n")
    slow.chmod(0o755)
    home = tmp_path / "home"
    process = start(tmp_path, "builds", "add", f"mine={slow}", QUANTKIT_HOME=str(home))
    begun(process, "probing")
    while not (tmp_path / "pids").exists():
        time.sleep(0.05)
    code, said = ended_by(process, signal.SIGTERM, 0.3)
    assert (code, said) == (143, "interrupted by SIGTERM; nothing was written")
    assert not any(path.is_dir() for path in (home / "builds").iterdir())


_SLOW_TO_CLEAN_UP = """
import hashlib, sys, time
import quantkit.cli.work
from quantkit.cli.main import cli, main

# However busy the machine is, the clean-up begins.
quantkit.cli.work._PATIENCE = 600.0

def tell(words):
    print(words, file=sys.stderr, flush=True)

@cli.command()
def work():
    try:
        tell("begun")
        time.sleep(600)
    finally:
        {}

sys.argv = ["quantkit", "work"]
main()
"""

CLEAN_UP = {
    "in Python": "tell('cleaning up'); time.sleep(600)",
    # Work in C that hears of no signal.
    "in C": "tell('cleaning up'); hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)",
    "at the very end": "sys.modules[main.__module__].kill_descendants = lambda: tell('cleaning up') or time.sleep(600)",
}


@pytest.mark.parametrize("slow", CLEAN_UP)
@pytest.mark.parametrize(
    ("first", "second", "code", "by"),
    [
        (signal.SIGINT, signal.SIGINT, 130, ""),
        (signal.SIGTERM, signal.SIGINT, 143, " by SIGTERM"),
        (signal.SIGINT, signal.SIGTERM, 130, ""),
        (signal.SIGHUP, signal.SIGHUP, 129, " by SIGHUP"),
    ],
)
def test_a_second_signal_does_not_wait_for_the_clean_up(first: int, second: int, code: int, by: str, slow: str) -> None:
    command = [sys.executable, "-c", _SLOW_TO_CLEAN_UP.format(CLEAN_UP[slow])]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        begun(process, "begun")
        process.send_signal(first)
        said = begun(process, "cleaning up")
        process.send_signal(second)
        said += process.communicate(timeout=PROMPTLY)[1]
    finally:
        process.kill()
    assert process.returncode == code
    assert said == f"interrupted{by}; nothing was written\n"


_INTERRUPTED_WHILE_IT_REMOVES = """
import os, shutil, signal, sys, time
from pathlib import Path
from quantkit.cli.main import cli, main
from quantkit.files.folders import whole_folder

remove = shutil.rmtree

def interrupted(path, **options):
    shutil.rmtree = remove
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(600)

@cli.command()
def work():
    for text in ("old", "new"):
        with whole_folder(Path("out")) as folder:
            (folder / "text").write_text(text)
        shutil.rmtree = interrupted

sys.argv = ["quantkit", "work"]
main()
"""


def test_a_signal_while_the_older_folder_is_removed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _INTERRUPTED_WHILE_IT_REMOVES]
    assert subprocess.run(command, cwd=tmp_path, env=environment(), timeout=60).returncode == 143
    assert tree(tmp_path) == {"out/text": b"new"}


@pytest.mark.parametrize(("done", "kept"), [(False, "nothing was written"), (True, "out is complete")])
def test_two_signals_while_a_bundle_is_replaced(
    quantizing: list[str], older: Path, run: Run, tmp_path: Path, done: bool, kept: str
) -> None:
    """The second finds the clean-up after the first anywhere, or over."""
    shutil.copytree(older, tmp_path / "out")
    process = held(quantizing, tmp_path, done)
    process.send_signal(signal.SIGTERM)
    ended = ended_by(process, signal.SIGINT, random.Random(SEED).uniform(0, 0.1))
    assert ended == (143, f"interrupted by SIGTERM; {kept}"), f"seed {SEED}"
    assert (tree(tmp_path / "out") == tree(older)) == (not done), f"seed {SEED}"
    assert run("verify", "out").exit_code == 0, f"seed {SEED}"
    # What the second signal left no time to remove, the next command does.
    assert run(*quantizing, "4").exit_code == 0, f"seed {SEED}"
    assert not any(is_temporary(path.name) for path in tmp_path.rglob("*")), f"seed {SEED}"


def killed_with_a_child(process: subprocess.Popen[str], word: str) -> None:
    """Kill a command when it has a child with this word in its command line: none lives on."""
    while not any(word in command_line(each) for each in descendants(process.pid)):
        assert process.poll() is None, "it ended before it began"
        time.sleep(0.02)
    family = descendants(process.pid)
    process.kill()
    process.communicate(timeout=60)
    assert_ended(family)


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_who_is_killed_leaves_no_engine_at_work(checkpoint: Path, int8_engine: None, tmp_path: Path) -> None:
    words = ["profile", checkpoint, "--input-shape", SHAPE, "--weights", "auto", "--out", "out", "--runs", 200000]
    (tmp_path / "tmp").mkdir()
    killed_with_a_child(start(tmp_path, *words, TMPDIR=str(tmp_path / "tmp")), "profiled_run")


def test_who_is_killed_leaves_no_installation(tmp_path: Path) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 600.5\n")
    slow.chmod(0o755)
    killed_with_a_child(start(tmp_path, "builds", "add", f"mine={slow}", QUANTKIT_HOME=str(tmp_path)), "600.5")


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start(tmp_path, "models", "--json")
    finally:
        signal.signal(signal.SIGHUP, before)
    time.sleep(0.2)
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("words", [("models", "--json"), ("--help",), ("--version",), ("explain", "nothing", "--json")])
def test_a_full_standard_output_is_an_error_of_ours(words: tuple[str, ...], tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*QUANTKIT, *words], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode in (1, 2)
    assert "Error: " in done.stderr
    assert "Traceback" not in done.stderr and "unexpected" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors(closed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{shlex.join(QUANTKIT)} models --json {closed}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
