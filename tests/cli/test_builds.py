from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.benchmark.interpreters import Fake
from tests.cli.conftest import Run, start


def test_list_shows_what_can_be_made_and_what_is(run: Run, fake: Fake) -> None:
    assert run("builds", "add", "native", f"mine={fake.python}").exit_code == 0
    builds = {each["name"]: each for each in json.loads(run("builds", "list", "--json").stdout)["builds"]}
    assert list(builds) == [
        "native",
        "native-1.8",
        "mkl-1.5",
        "mkl-1.6",
        "onednn",
        "onnxruntime",
        "openvino",
        "peers",
        "mine",
    ]
    native, mine, onednn = builds["native"], builds["mine"], builds["onednn"]
    assert [native[each] for each in ("state", "version", "engine", "int8")] == [
        "ready",
        "1.5.0",
        "native",
        False,
    ]
    assert native["size"] > 0
    assert (mine["state"], mine["role"], mine["python"], mine["size"]) == ("ready", "your own", fake.python, None)
    assert [onednn[each] for each in ("state", "version", "engine", "int8")] == ["not made", None, None, None]
    printed = run("builds", "list").stdout
    lines = {line.split()[0]: line for line in printed.splitlines() if line}
    assert lines["native"].split()[1:5] == ["ready", "native", "1.5.0", "no"]
    assert "not made" in lines["onednn"]


def test_add_tells_its_stages_on_standard_error_and_shows_the_result(run: Run, fake: Fake) -> None:
    result = run("builds", "add", "native")
    assert result.stderr.splitlines()[:2] == [
        f"native: making a virtual environment with {fake.python} ...",
        "native: installing mxnet==1.5.0 and numpy==1.26.4 ...",
    ]
    assert "ready" in result.stdout
    again = run("builds", "add", "native", "--quiet")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "")


def test_add_uses_the_interpreter_that_is_named(run: Run, fake: Fake) -> None:
    other = fake.make("other")
    assert run("builds", "add", "native", "--python", other).exit_code == 0
    assert (fake.home / "builds" / "native" / "bin" / "python").resolve() == Path(other)


def test_add_fails_with_what_pip_said(run: Run, fake: Fake) -> None:
    fake.behave(install="exit:ERROR: No matching distribution found for mxnet==1.5.0")
    result = run("builds", "add", "native", "--json")
    assert result.exit_code == 1
    assert "No matching distribution" in json.loads(result.stdout)["error"]["message"]
    assert "PIP_FIND_LINKS" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["add", "nix"], ["add", "mine=/nowhere"], ["add"], ["check", "nix"], ["remove", "nix"], ["remove"]]
)
def test_requests_that_cannot_be_served(run: Run, fake: Fake, arguments: list[str]) -> None:
    assert run("builds", *arguments).exit_code == 2


def test_check_tells_which_is_broken_and_why(run: Run, fake: Fake) -> None:
    assert run("builds", "check").exit_code == 0
    run("builds", "add", "native")
    assert run("builds", "check").exit_code == 0
    assert run("builds", "check", "native", "onednn").exit_code == 1
    fake.behave(probe="exit:the last words [of it]")
    result = run("builds", "check", "--json")
    assert result.exit_code == 1
    (build,) = json.loads(result.stdout)["builds"]
    assert (build["name"], build["state"]) == ("native", "broken")
    assert "the last words [of it]" in build["problem"]
    printed = run("builds", "check").stdout
    assert "BROKEN" in printed
    assert "the last words [of it]" in printed


def test_remove(run: Run, fake: Fake) -> None:
    run("builds", "add", "native", f"mine={fake.python}")
    result = run("builds", "remove", "native", "mine", "--json")
    assert json.loads(result.stdout) == {"removed": ["native", "mine"]}
    assert fake.left() == []
    assert run("builds", "remove", "native").exit_code == 2


def test_ctrl_c_during_pip_ends_at_once_and_leaves_nothing(tmp_path: Path, fake: Fake) -> None:
    fake.behave(install="hang")
    process = start(tmp_path, "builds", "add", "native", "--python", fake.python)
    assert process.stderr is not None
    while "installing" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted; nothing was written\n")
    assert fake.left() == []


def test_what_was_made_before_ctrl_c_is_kept_and_named(tmp_path: Path, fake: Fake) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600")
    slow.chmod(0o755)
    assert start(tmp_path, "builds", "add", "native", "--python", fake.python).wait() == 0
    process = start(tmp_path, "builds", "add", "native", f"slow={slow}")
    assert process.stderr is not None
    while "slow: probing" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert err == f"interrupted; {fake.home}/builds/native is complete\n"
    assert fake.left() == ["native"]
    # It may have been interrupted before it began.
    pid = tmp_path / "pid"
    assert not pid.exists() or not Path(f"/proc/{pid.read_text().strip()}").exists()
