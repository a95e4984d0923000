from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark import build_folder, environments
from quantkit.benchmark.environments import add_build, check_build, list_builds, open_build, remove_build
from quantkit.benchmark.instance import worker_files
from quantkit.benchmark.probe import probe
from quantkit.benchmark.recipes import RECIPES
from quantkit.errors import EngineMissing, QuantkitError, UserError
from tests.benchmark.interpreters import Fake

MADE = ["about", "venv", "install", "uninstall", "probe"]
MKLDNN = {"version": "1.9.1", "features": ["MKLDNN"], "int8": True}


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    fake = Fake(tmp_path, monkeypatch)
    monkeypatch.setattr(sys, "_base_executable", fake.python, raising=False)
    monkeypatch.setattr(environments, "_has_mxnet", lambda: False)
    return fake


def states() -> dict[str, str]:
    return {each.name: each.state for each in list_builds()}


def test_a_recipe_is_made_at_its_first_use_and_then_opened_without_asking_it(fake: Fake) -> None:
    stages: list[str] = []
    build = open_build("native", stages.append)
    assert fake.steps() == MADE
    assert build.python == str(fake.home / "builds" / "native" / "bin" / "python")
    assert Path(build.library).is_file()
    assert (build.name, build.version, build.mkldnn, build.int8) == ("native", "1.5.0", False, False)
    assert [stage.split()[1] for stage in stages] == ["making", "installing", "downloading", "probing"]
    assert open_build("native", stages.append) == build
    assert (fake.steps(), len(stages)) == ([], 4)
    assert fake.left() == ["native"]


def test_another_engine_is_asked_for_by_its_name(fake: Fake) -> None:
    fake.behave(facts={"engine": "openvino", "version": "2026.4.1", "features": ["FP32", "INT8"], "int8": True})
    build = open_build("openvino")
    assert (build.engine, build.version, build.mkldnn, build.int8) == ("openvino", "2026.4.1", False, True)
    assert [call["engine"] for call in fake.calls() if call["step"] == "probe"] == ["openvino"]
    assert open_build(f"mine={fake.python}").engine == "openvino"
    assert [call["engine"] for call in fake.calls() if call["step"] == "probe"] == [None]


def test_only_the_quantizers_of_others_bring_along_what_they_depend_on(fake: Fake) -> None:
    for name in ("native", "onnxruntime", "peers"):
        fake.behave(install="exit:no index")
        with pytest.raises(QuantkitError) as caught:
            open_build(name)
        (pip,) = [call["arguments"] for call in fake.calls() if call["step"] == "install"]
        assert ("--no-deps" in pip) == ("--no-deps" in str(caught.value)) == (name != "peers")
        assert set(RECIPES[name].wheels) < set(pip)


def test_recipes_have_the_versions_that_the_extras_have() -> None:
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(RECIPES["peers"].wheels) == set(extras["peers"])
    assert {*RECIPES["onnxruntime"].wheels, *RECIPES["openvino"].wheels} <= {
        wheel.replace("[quantization,symbolic]", "") for wheel in extras["peers"]
    }
    assert set(RECIPES["onednn"].wheels) < set(extras["onednn"])


def test_a_recipe_is_not_made_where_that_is_not_wanted(fake: Fake) -> None:
    with pytest.raises(UserError, match="quantkit builds add native"):
        open_build("native", create=False)
    assert fake.left() == []


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


@pytest.mark.parametrize("step", ["venv", "install", "uninstall", "probe"])
def test_what_fails_leaves_nothing_and_says_why(fake: Fake, step: str) -> None:
    fake.behave(**{step: "exit:the last words"})
    with pytest.raises(QuantkitError, match=r"(?s)exit code 3.*\n    the last words") as caught:
        open_build("native")
    assert caught.value.exit_code == 1
    assert fake.left() == []
    assert states()["native"] == "not made"


def test_without_an_index_the_error_says_what_to_install_where(fake: Fake) -> None:
    fake.behave(install="exit:ERROR: No matching distribution found for mxnet==1.5.0")
    with pytest.raises(QuantkitError) as caught:
        open_build("native")
    for words in (
        "ERROR: No matching", "mxnet==1.5.0 numpy==1.26.4", "PIP_FIND_LINKS", "PIP_INDEX_URL", "native=/path/to/python"
    ):  # fmt: skip
        assert words in str(caught.value)


def test_pip_gets_its_own_settings_but_not_another_target(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"PIP_FIND_LINKS": "wheels", "PIP_TARGET": "elsewhere", "PYTHONPATH": "modules"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_RETRIES", raising=False)
    open_build("native")
    seen = {call["step"]: call["environment"] for call in fake.calls()}
    assert seen["install"]["PIP_FIND_LINKS"] == "wheels"
    assert seen["install"]["PIP_RETRIES"] == "1"
    assert "PIP_TARGET" not in seen["install"]
    monkeypatch.setenv("PIP_RETRIES", "9")
    remove_build("native")
    open_build("native")
    assert {call["step"]: call["environment"] for call in fake.calls()}["install"]["PIP_RETRIES"] == "9"


def test_no_interpreter_is_led_to_the_modules_of_another(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/modules")
    monkeypatch.setenv("PYTHONHOME", "/python")
    open_build("native")
    for call in fake.calls():
        python = {name: value for name, value in call["environment"].items() if name.startswith("PYTHON")}
        assert python == {"PYTHONNOUSERSITE": "1"}, call["step"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (MKLDNN, "has mxnet 1.9.1 with MKL-DNN"),
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


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"version": [3, 13]}, r"Python 3.13.*with Python 3.11 alone"),
        ({"version": [3, 10]}, r"Python 3.10.*with Python 3.11 alone"),
        ({"abi": "cpython-311-darwin"}, "Linux, x86-64"),
        ({"abi": "cpython-311-aarch64-linux-gnu"}, "Linux, x86-64"),
        ({"abi": "cpython-311-x86_64-linux-musl"}, "glibc"),
        ({"abi": "pypy39-pp73-x86_64-linux-gnu"}, "CPython"),
    ],
)
def test_where_the_wheels_cannot_run_none_is_fetched(fake: Fake, about: dict[str, Any], words: str) -> None:
    fake.behave(about_facts=about)
    with pytest.raises(UserError, match=words):
        open_build("native")
    assert fake.steps() == ["about"]


@pytest.mark.parametrize("python", ["/bin/true", "/nowhere/python", "/"])
def test_a_base_that_is_no_interpreter_is_refused(fake: Fake, python: str) -> None:
    with pytest.raises(UserError, match="--python"):
        add_build("native", python=python)


def test_a_build_is_made_with_the_interpreter_that_is_named(fake: Fake) -> None:
    other = fake.make("other")
    assert os.path.realpath(add_build("native", python=other).python) == other
    add_build("native", python=other)
    with pytest.raises(UserError, match="quantkit builds remove native"):
        add_build("native", python=fake.python)


def test_an_unknown_name_is_answered_with_the_known_ones(fake: Fake) -> None:
    add_build(f"mine={fake.python}")
    with pytest.raises(UserError, match=f"no build nativ; known: {', '.join(RECIPES)}, mine;"):
        open_build("nativ")
    for action in (add_build, check_build, remove_build):
        with pytest.raises(UserError, match="known: native"):
            action("nativ")


def test_an_interpreter_of_the_users_own_is_registered_and_forgotten(fake: Fake) -> None:
    fake.behave(facts=MKLDNN)
    build = add_build(f"mine={fake.python}")
    assert (build.python, build.mkldnn) == (fake.python, True)
    assert fake.steps() == ["probe"]
    assert open_build("mine") == build
    assert fake.steps() == []
    assert states()["mine"] == "ready"
    assert add_build(f"mine={fake.python}") == build
    with pytest.raises(UserError, match="quantkit builds remove mine"):
        add_build(f"mine={fake.make('other')}")
    remove_build("mine")
    assert fake.left() == []
    assert Path(fake.python).exists()


def test_an_interpreter_can_be_opened_without_being_registered(fake: Fake) -> None:
    assert open_build(f"mine={fake.python}").python == fake.python
    assert fake.left() == []


def test_an_interpreter_of_the_users_own_can_stand_in_for_a_recipe_that_it_fits(fake: Fake) -> None:
    assert add_build(f"native={fake.python}").python == fake.python
    assert open_build("native").python == fake.python
    with pytest.raises(UserError, match=r"stands for mxnet 1\.9\.1"):
        open_build(f"onednn={fake.python}")


@pytest.mark.parametrize("action", [add_build, open_build])
@pytest.mark.parametrize("spec", ["here={}", "={}", "a/b={}", "..={}", "mine=", "mine=/nowhere/python", "mine=/"])
def test_a_wrong_name_or_path_is_refused(fake: Fake, spec: str, action: Any) -> None:
    with pytest.raises(UserError):
        action(spec.format(fake.python))
    assert (fake.steps(), fake.left()) == ([], [])


def test_an_interpreter_that_does_not_work_is_not_registered(fake: Fake) -> None:
    fake.behave(probe="exit:ModuleNotFoundError: No module named 'mxnet'")
    with pytest.raises(UserError, match="No module named 'mxnet'"):
        add_build(f"mine={fake.python}")
    assert fake.left() == []


def test_what_a_check_found_broken_stays_so_until_it_is_mended(fake: Fake) -> None:
    build = open_build("native")
    fake.behave(probe="exit:libgomp.so.1: cannot open shared object file")
    assert check_build("native").state == "broken"
    assert "libgomp1" in check_build("native").problem
    with pytest.raises(QuantkitError, match="quantkit builds remove native"):
        open_build("native")
    fake.behave()
    assert open_build("native") == build
    fake.calls()
    assert check_build("native").state == "ready"
    assert fake.steps() == ["probe"]


def test_what_is_broken_is_made_anew_when_added(fake: Fake) -> None:
    build = open_build("native")
    Path(build.python).unlink()
    assert states()["native"] == "broken"
    fake.calls()
    assert add_build("native") == build
    assert fake.steps() == MADE
    assert fake.left() == ["native"]


def test_a_damaged_record_is_written_again(fake: Fake) -> None:
    build = open_build("native")
    (fake.home / "builds" / "native" / "build.json").write_text("{")
    assert open_build("native") == build
    add_build(f"mine={fake.python}")
    (fake.home / "builds" / "mine" / "build.json").write_text("{}")
    with pytest.raises(QuantkitError, match="damaged"):
        open_build("mine")
    assert add_build(f"mine={fake.python}").python == fake.python


def test_removing(fake: Fake) -> None:
    with pytest.raises(UserError, match="not made"):
        remove_build("native")
    open_build("native")
    remove_build("native")
    assert fake.left() == []
    with pytest.raises(UserError, match="cannot be removed"):
        remove_build("here")


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
    for name in (".native~dead", ".native-1.8~alive"):
        (fake.home / "builds" / name).mkdir()
    check_build("native")
    assert fake.left() == [".native-1.8~alive", "native"]


def start(fake: Fake) -> subprocess.Popen[str]:
    code = (
        "import sys; from quantkit.benchmark.environments import open_build\n"
        f"sys._base_executable = {fake.python!r}\n"
        "print(open_build('native', lambda stage: print(stage, file=sys.stderr, flush=True)).python)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
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


def test_here_is_absent_where_there_is_no_engine(fake: Fake) -> None:
    assert "here" not in states()
    with pytest.raises(EngineMissing, match="no mxnet"):
        open_build("here")


def test_here_is_not_taken_for_another_environment(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "_has_mxnet", lambda: True)
    for python in (fake.python, fake.make("other")):
        monkeypatch.setattr(sys, "executable", python)
        assert open_build("here").python == python
        assert states()["here"] == "ready"
    assert fake.steps() == ["probe", "probe"]


def test_here_is_this_environment(engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quantkit.engine.build import installed

    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path))
    build = open_build("here")
    assert (build.python, build.version) == (sys.executable, installed().version)
    assert set(build.features) == set(installed().features)
    record = json.loads((tmp_path / "builds" / "here" / "build.json").read_text())
    assert record["build"]["version"] == build.version
    stages: list[str] = []
    assert open_build("here", stages.append) == build
    assert stages == []
    with pytest.raises(UserError, match="cannot be removed"):
        remove_build("here")
