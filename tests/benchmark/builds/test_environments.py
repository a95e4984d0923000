from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quantkit.benchmark.builds import build_folder, environments
from quantkit.benchmark.builds.environments import (
    add_build,
    check_build,
    list_builds,
    open_build,
    open_builds,
    remove_build,
)
from quantkit.benchmark.builds.recipes import RECIPES
from quantkit.errors import EngineMissing, QuantkitError, UserError
from quantkit.files import files
from quantkit.files.cache import KINDS, remove_unused
from tests.benchmark.interpreters import MADE, Fake
from tests.processes import another_uses

MKLDNN = {"version": "1.9.1", "features": ["MKLDNN"], "int8": True}


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


def test_removing(fake: Fake) -> None:
    with pytest.raises(UserError, match="not made"):
        remove_build("native")
    open_build("native")
    remove_build("native")
    assert fake.left() == []
    with pytest.raises(UserError, match="cannot be removed"):
        remove_build("here")


def test_others_need_not_wait_while_a_build_is_deleted(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    open_build("native")
    told: list[str] = []

    def remove(path: Path) -> None:
        # Who takes the lock removes leftovers, too, such as this one.
        with build_folder.locked("native", told.append), files.locked(fake.home / ".in-use" / ".lock", pytest.fail):
            assert not path.exists()

    monkeypatch.setattr(environments, "remove", remove)
    remove_build("native")
    assert (fake.left(), told) == ([], [])


def cleaned() -> list[str]:
    """What ``quantkit cache --clean builds`` removes."""
    return [entry.name for entry in remove_unused(KINDS["builds"].entries())]


def test_what_another_process_uses_is_not_removed(fake: Fake) -> None:
    open_build("native")
    with another_uses(fake.home / "builds" / "native"):
        with pytest.raises(QuantkitError, match=r"another process uses .*native"):
            remove_build("native")
        assert fake.left() == ["native"]
    remove_build("native")
    assert fake.left() == []


def test_what_another_process_uses_is_not_made_anew(fake: Fake) -> None:
    build = open_build("native")
    with another_uses(fake.home / "builds" / "native"):
        fake.behave(probe="exit:killed")
        Path(build.library).write_text("changed")
        with pytest.raises(QuantkitError, match=r"another process uses .*native"):
            add_build("native")
    assert Path(build.library).read_text() == "changed"


@pytest.mark.parametrize("reader", [open_build, check_build])
def test_who_reads_a_build_keeps_it(fake: Fake, reader: Any) -> None:
    assert add_build("native").name == "native"
    reader("native")
    assert cleaned() == []
    assert fake.left() == ["native"]


def test_an_interpreter_in_a_build_keeps_it(fake: Fake) -> None:
    python = add_build("native").python
    build = open_build(f"mine={python}")
    assert (build.python, cleaned()) == (python, [])


def test_an_interpreter_in_a_build_of_a_relative_home_keeps_it(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fake.folder)
    monkeypatch.setenv("QUANTKIT_HOME", "home")
    open_build(f"mine={add_build('native').python}")
    assert cleaned() == []


def test_an_interpreter_registered_in_a_build_keeps_it(fake: Fake) -> None:
    python = add_build("native").python
    add_build(f"mine={python}")
    open_build("mine")
    assert cleaned() == []


def test_what_nobody_uses_is_removed(fake: Fake) -> None:
    add_build("native")
    add_build(f"mine={fake.python}")
    open_build("mine")
    assert cleaned() == ["builds/native"]


def test_here_is_absent_where_there_is_no_engine(fake: Fake) -> None:
    assert "here" not in states()
    with pytest.raises(EngineMissing, match="no mxnet"):
        open_build("here")


def test_here_is_not_taken_for_another_environment(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "_has_mxnet", lambda: True)
    for python in (fake.python, fake.make("other")):
        monkeypatch.setattr(environments, "sys", SimpleNamespace(executable=python))
        assert open_build("here").python == python
        assert states()["here"] == "ready"
    assert fake.steps() == ["probe", "probe"]


def test_here_is_this_environment(engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from quantkit.backends.mxnet.build import installed

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


def test_interpreters_of_the_callers_own_are_opened_before_anything_is_made(fake: Fake) -> None:
    with pytest.raises(UserError, match="/nowhere/python"):
        open_builds({"native": "native", "mine": "mine=/nowhere/python"})
    assert all(call["step"] != "install" for call in fake.calls())
    opened = open_builds({"native": "native", "mine": f"mine={fake.python}"})
    assert [(name, build.name) for name, build in opened.items()] == [("native", "native"), ("mine", "mine")]
