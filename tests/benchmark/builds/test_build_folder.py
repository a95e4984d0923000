from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quantkit.benchmark.builds import build_folder
from quantkit.benchmark.builds.environments import add_build, check_build, list_builds, open_build
from quantkit.benchmark.workers.instance import worker_files
from quantkit.errors import QuantkitError
from quantkit.files.temporary import temporary_folder, temporary_name
from tests.benchmark.interpreters import MADE, Fake


@pytest.mark.parametrize("changed", ["python", "library", "worker"])
def test_what_changed_is_probed_again_once(fake: Fake, changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build = open_build("native")
    fake.calls()
    if changed == "worker":
        other = fake.folder / "worker.py"
        other.write_text("# a later version")
        monkeypatch.setattr(build_folder, "worker_files", lambda engine: (*worker_files(engine), other))
    else:
        os.utime(getattr(build, changed), (1, 1))
    assert open_build("native") == build
    assert fake.steps() == ["probe"]
    assert open_build("native") == build
    assert fake.steps() == []


def test_a_build_depends_on_the_workers_part_for_its_engine(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def noted(engine: str) -> tuple[Path, ...]:
        asked.append(engine)
        return worker_files(engine)

    monkeypatch.setattr(build_folder, "worker_files", noted)
    fake.behave(facts={"engine": "openvino", "version": "2026.4.1"})
    open_build("openvino")
    assert set(asked) == {"openvino"}


def test_a_home_that_moved_takes_its_builds_along(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    open_build("native")
    fake.calls()
    moved = fake.folder / "moved"
    fake.home.rename(moved)
    monkeypatch.setenv("QUANTKIT_HOME", str(moved))
    assert open_build("native").python == str(moved / "builds" / "native" / "bin" / "python")
    assert fake.steps() == ["probe"]


def test_a_damaged_record_is_written_again(fake: Fake) -> None:
    build = open_build("native")
    (fake.home / "builds" / "native" / "build.json").write_text("{")
    assert open_build("native") == build
    add_build(f"mine={fake.python}")
    (fake.home / "builds" / "mine" / "build.json").write_text("{}")
    with pytest.raises(QuantkitError, match="damaged"):
        open_build("mine")
    assert add_build(f"mine={fake.python}").python == fake.python


def test_sizes_are_those_of_environments_that_quantkit_made(fake: Fake) -> None:
    open_build("native")
    add_build(f"mine={fake.python}")
    sizes = {each.name: each.size for each in list_builds()}
    folder = fake.home / "builds" / "native"
    assert sizes["native"] == sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    assert (sizes["mine"], sizes["onednn"]) == (None, None)


def test_a_home_that_cannot_be_written_is_named(fake: Fake) -> None:
    fake.home.write_text("a file")
    with pytest.raises(QuantkitError, match="set QUANTKIT_HOME"):
        open_build("native")


def test_what_a_killed_process_left_is_swept_away_but_nothing_else(fake: Fake) -> None:
    open_build("native")
    temporary_name(fake.home / "builds" / "native").mkdir()
    with temporary_folder(fake.home / "builds" / "native-1.8") as alive:
        check_build("native")
        assert fake.left() == [alive.name, "native"]


def start(fake: Fake) -> subprocess.Popen[str]:
    code = (
        "import sys; from quantkit.benchmark.builds.environments import open_build\n"
        f"sys._base_executable = {fake.python!r}\n"
        "print(open_build('native', lambda stage: print(stage, file=sys.stderr, flush=True)).python)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_two_processes_that_want_the_same_build_make_it_once(fake: Fake) -> None:
    fake.behave(install="slow")
    processes = [start(fake) for _ in range(2)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0][0] == outputs[1][0] == f"{fake.home}/builds/native/bin/python\n"
    assert fake.steps() == MADE
    assert sum("waiting for another process" in err for _, err in outputs) == 1


@pytest.mark.parametrize("step", ["venv", "install", "probe"])
def test_ctrl_c_leaves_nothing_behind(fake: Fake, step: str) -> None:
    fake.behave(**{step: "hang"})
    process = start(fake)
    deadline = time.monotonic() + 30
    while not fake.log.exists() or f'"{step}"' not in fake.log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in err
    assert fake.left() == []
    assert not Path(f"/proc/{fake.calls()[-1]['pid']}").exists()
