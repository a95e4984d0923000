"""The commit of a checkout, read by git without being led astray."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from quantkit.host import revision
from quantkit.host.revision import UNKNOWN, Revision, described, own_revision, read_revision

needs_git = pytest.mark.requires("git")


def _git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], env=clean, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for folder in ("quantkit", "benchmarks/results"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "quantkit" / "code.py").write_text("1\n")
    (tmp_path / "benchmarks" / "results" / "one.json").write_text("1\n")
    _git(tmp_path, "init", "--quiet")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


@needs_git
def test_a_clean_checkout(checkout: Path) -> None:
    assert read_revision(checkout) == Revision(_git(checkout, "rev-parse", "HEAD"), False)


@needs_git
@pytest.mark.parametrize("name", ["quantkit/code.py", "quantkit/new.py"])
def test_changed_and_new_code_is_told(checkout: Path, name: str) -> None:
    (checkout / name).write_text("2\n")
    assert read_revision(checkout).dirty is True


@needs_git
@pytest.mark.parametrize("name", ["benchmarks/results/one.json", "benchmarks/results/two.json", "smoke/run.json"])
def test_what_a_measurement_writes_is_no_change(checkout: Path, name: str) -> None:
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("2\n")
    assert read_revision(checkout).dirty is False


@needs_git
def test_variables_and_settings_of_the_user_change_nothing(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = read_revision(checkout)
    trap = tmp_path_factory.mktemp("trap")
    (trap / "hook").write_text(f"#!/bin/sh\ntouch {trap}/ran\n")
    (trap / "hook").chmod(0o755)
    _git(checkout, "config", "core.fsmonitor", str(trap / "hook"))
    (trap / "settings").write_text("[status]\nshowUntrackedFiles = no\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(trap / "settings"))
    monkeypatch.setenv("GIT_DIR", str(trap))
    monkeypatch.setenv("GIT_WORK_TREE", str(trap))
    assert read_revision(checkout) == told
    (checkout / "quantkit" / "new.py").write_text("")
    assert read_revision(checkout).dirty is True
    assert not (trap / "ran").exists()


@needs_git
def test_a_checkout_of_another_owner(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = read_revision(checkout)
    programs = tmp_path_factory.mktemp("bin")
    # Git's own tests have it believe so.
    script = f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec {shutil.which("git")} "$@"\n'
    (programs / "git").write_text(script)
    (programs / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    assert subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True).returncode != 0
    assert read_revision(checkout) == told


@needs_git
def test_a_folder_within_another_repository_is_none_of_its_commits(checkout: Path) -> None:
    (checkout / "inside").mkdir()
    assert read_revision(checkout / "inside") == Revision(UNKNOWN, None)


def test_without_git_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert read_revision(Path(revision.__file__).parents[2]) == Revision(UNKNOWN, None)


@needs_git
def test_a_git_that_hangs_is_not_waited_for(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (slow / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    monkeypatch.setattr(revision, "_PATIENCE", 0.2)
    assert read_revision(checkout).commit == UNKNOWN


def test_in_words() -> None:
    assert described(None) == "not recorded"
    assert described(Revision(UNKNOWN, None)) == "unknown"
    assert described(Revision("0123456789abcdef", False)) == "0123456789ab (clean)"
    assert described(Revision("0123456789abcdef", True)) == "0123456789ab (with changes that are not committed)"


def test_this_one() -> None:
    own = own_revision()
    assert own.commit == UNKNOWN or len(own.commit) == 40
