from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quantkit.benchmark.workers.instance import Instance
from quantkit.errors import InstanceError

pytestmark = pytest.mark.timing

FAKE = Path(__file__).parents[1] / "fake_worker.py"


def start(fault: str = "", folder: Path = Path()) -> Instance:
    instance = Instance([sys.executable], {**os.environ, "INSTANCE": "0"}, worker=FAKE)
    if fault:
        symbol = folder / "network.json"
        symbol.write_text(json.dumps({"seconds": 0.01, "fault": fault, "value": 1.0}))
        instance.ask("load", 20, files={"symbol": str(symbol)})
    return instance


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("warm:exit", "crashed", "exit code 3"),
        ("warm:kill", "killed", "SIGKILL"),
        ("warm:stop", "hung", "stopped"),
        ("warm:hang", "hung", "no sign of life for 2 s"),
        ("warm:garbage", "protocol", "garbage"),
        ("warm:close", "protocol", "closed its channel"),
    ],
)
def test_misbehaviour_has_a_name_and_leaves_no_process(
    fault: str, kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quantkit.benchmark.workers.instance._ENDS_WITHIN", 0.2)
    with start(fault, tmp_path) as instance, pytest.raises(InstanceError) as caught:
        instance.ask("warm", patience=2)
    assert caught.value.kind == kind
    assert words in str(caught.value) and str(instance.pid) in str(caught.value)
    assert caught.value.stderr == ("last words",)
    assert not is_running(instance.pid)


def test_noise_on_standard_output_is_not_taken_for_an_answer(tmp_path: Path) -> None:
    with start("warm:noise", tmp_path) as instance:
        assert instance.ask("warm", 10)["steady"] is True
        assert instance.last_lines()[0] == '{"event": "measure"}' or "last words" in instance.last_lines()


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="cannot start") as caught:
        Instance([str(tmp_path / "python")], {})
    assert caught.value.kind == "start"


def test_killing_twice_is_once(tmp_path: Path) -> None:
    instance = start()
    instance.kill()
    instance.kill()
    assert not is_running(instance.pid)


def test_the_dead_are_told_nothing(tmp_path: Path) -> None:
    with start("load:none", tmp_path) as instance:
        os.kill(instance.pid, signal.SIGKILL)
        with pytest.raises(InstanceError, match="killed by SIGKILL"):
            for _ in range(100):
                instance.ask("warm", 5)


@pytest.fixture
def orphan() -> Iterator[subprocess.Popen]:
    """A process that starts the real worker, prints its number and waits."""
    code = (
        "import sys, time\nfrom quantkit.benchmark.workers.instance import Instance\n"
        "instance = Instance([sys.executable], {'PATH': ''})\n"
        "print(instance.pid, flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()


def test_a_worker_does_not_outlive_its_parent(orphan: subprocess.Popen) -> None:
    assert orphan.stdout is not None
    worker = int(orphan.stdout.readline())
    orphan.kill()
    deadline = time.monotonic() + 10
    while is_running(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(worker)


def test_waiting_can_be_interrupted(tmp_path: Path) -> None:
    with start("warm:hang", tmp_path) as instance:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            instance.ask("warm", 60)
        assert time.monotonic() - begun < 2
