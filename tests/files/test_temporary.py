"""What has a temporary name is removed once nobody works on it, and nothing else is."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from quantkit.files import temporary
from quantkit.files.temporary import (
    remove_at_once,
    remove_leftovers,
    remove_own,
    temporary_file,
    temporary_folder,
    temporary_name,
)
from tests.processes import environment


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_what_is_worked_on_stays_and_what_is_left_goes(tmp_path: Path) -> None:
    left = temporary_name(tmp_path / "folder")
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "file").write_text("half")
    temporary_name(tmp_path / "file").write_text("half")
    with temporary_folder(tmp_path / "folder") as folder, temporary_file(tmp_path / "file") as (file, _):
        remove_leftovers(tmp_path)
        assert names(tmp_path) == {folder.name, file.name}
    assert names(tmp_path) == set()


def test_other_names_and_links_are_left_alone(tmp_path: Path) -> None:
    kept = {
        "a.quantkit-new",
        ".a.0123.quantkit-new",
        ".a.0123456789abcdef.quantkit-news",
        ".a.0123456789ABCDEF.quantkit-new",
    }
    for name in kept:
        (tmp_path / name).write_text("mine")
    target = tmp_path / "target"
    target.mkdir()
    link = temporary_name(tmp_path / "link")
    link.symlink_to(target)
    os.mkfifo(pipe := temporary_name(tmp_path / "pipe"))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == kept | {"target", link.name, pipe.name}


def test_what_another_user_left_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that all may write, such as /tmp, where only the super-user could remove it."""
    left = temporary_name(tmp_path / "left")
    left.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    remove_leftovers(tmp_path)
    assert names(tmp_path) == {left.name}


def test_what_stands_aside_goes_back_only_into_an_empty_place(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("new")
    for name in ("taken", "free"):
        temporary_name(tmp_path / name, "old").write_text("old")
    remove_leftovers(tmp_path)
    assert {name: (tmp_path / name).read_text() for name in names(tmp_path)} == {"taken": "new", "free": "old"}


def test_who_finds_its_new_folder_taken_for_a_leftover_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    locked_alone = temporary.locked_alone

    def swept_first(descriptor: int, path: Path) -> bool:
        made.append(path)
        if len(made) < 3:
            remove_leftovers(tmp_path)
        return locked_alone(descriptor, path)

    monkeypatch.setattr(temporary, "locked_alone", swept_first)
    with temporary_folder(tmp_path / "a") as folder:
        assert folder == made[2]
        assert names(tmp_path) == {folder.name}
    made.clear()
    with temporary_file(tmp_path / "a") as (file, _):
        assert names(tmp_path) == {file.name}


def test_without_locks_nothing_can_be_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int, operation: int) -> None:
        raise OSError(9, "Bad file descriptor")

    left = temporary_name(tmp_path / "left")
    left.mkdir()
    monkeypatch.setattr(fcntl, "flock", refused)
    with temporary_folder(tmp_path / "a") as folder:
        remove_leftovers(tmp_path)
        assert names(tmp_path) == {folder.name, left.name}
    assert names(tmp_path) == {left.name}


def test_a_folder_that_cannot_be_read_has_no_leftovers(tmp_path: Path) -> None:
    remove_leftovers(tmp_path / "missing")


def test_an_end_without_unwinding_removes_what_was_worked_on(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(temporary_folder(tmp_path / "a"))
        stack.enter_context(temporary_file(tmp_path / "b"))
        remove_own()
        assert names(tmp_path) == set()


def test_what_is_removed_at_once_loses_its_name_before_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    removed: list[Path] = []
    monkeypatch.setattr(temporary, "remove", removed.append)
    remove_at_once(folder)
    # Where the process is killed here, the next one finds a leftover.
    assert {tmp_path / name for name in names(tmp_path)} == set(removed)
    remove_leftovers(tmp_path)
    assert removed == [removed[0]] * 2
    monkeypatch.undo()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == set()
    with pytest.raises(FileNotFoundError):
        remove_at_once(folder)


def test_read_only_folders_go_as_well(tmp_path: Path) -> None:
    (tmp_path / "bundle" / "deep").mkdir(parents=True)
    (tmp_path / "bundle" / "deep" / "file").write_text("kept for good")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "bundle" / "link").symlink_to(tmp_path / "elsewhere")
    for folder in (tmp_path / "bundle" / "deep", tmp_path / "bundle", tmp_path / "elsewhere"):
        folder.chmod(0o555)
    remove = (
        "from pathlib import Path; from quantkit.files.temporary import remove; "
        f"remove(Path({str(tmp_path)!r}, 'bundle'))"
    )
    # To root, folders are read-only only without CAP_DAC_OVERRIDE, which a new program does not get any more.
    without_override = (
        "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); os.execv(sys.executable, sys.argv)"
    )
    subprocess.run([sys.executable, "-c", without_override, "-c", remove], env=environment(), check=True)
    assert names(tmp_path) == {"elsewhere"}
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o555
