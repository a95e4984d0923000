from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from quantkit.bundle import BUNDLE
from quantkit.errors import QuantkitError, UserError
from quantkit.files import folders
from quantkit.files.folders import check_destination, put_folder, replacing, scratch_folder
from quantkit.files.temporary import temporary_name
from tests.processes import environment


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, with its text."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def fill(directory: Path, text: str, force: bool = False) -> None:
    with replacing(directory, force, BUNDLE) as new:
        (new / "manifest.json").write_text(text)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A bundle, as far as this package knows."""
    directory = tmp_path / "out"
    fill(directory, "old")
    return directory


def test_a_new_directory_appears_with_its_parents(tmp_path: Path) -> None:
    fill(tmp_path / "some" / "where" / "out", "new")
    assert contents(tmp_path) == {"some/where/out/manifest.json": "new"}


def test_an_empty_directory_is_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    fill(tmp_path / "out", "new")
    assert contents(tmp_path) == {"out/manifest.json": "new"}


def test_an_older_bundle_is_replaced_with_force_only(old: Path) -> None:
    with pytest.raises(UserError, match=r"out holds a bundle already; replace it with --force"):
        fill(old, "new")
    assert contents(old.parent) == {"out/manifest.json": "old"}
    fill(old, "new", force=True)
    assert contents(old.parent) == {"out/manifest.json": "new"}


def test_what_is_no_bundle_is_never_replaced(tmp_path: Path) -> None:
    thesis = tmp_path / "out"
    thesis.mkdir()
    (thesis / "thesis.tex").write_text("years")
    for force in (False, True):
        with pytest.raises(UserError, match=r"out is not empty and not a bundle"):
            fill(thesis, "new", force)
    assert contents(tmp_path) == {"out/thesis.tex": "years"}


def test_a_stranger_inside_a_bundle_is_not_deleted(old: Path) -> None:
    (old / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match=r"holds 'notes.txt', which is not part of a bundle"):
        fill(old, "new", force=True)
    assert contents(old) == {"manifest.json": "old", "notes.txt": "mine"}


def test_a_link_to_a_folder_inside_a_bundle_is_not_deleted(old: Path) -> None:
    (old.parent / "data").mkdir()
    (old / "samples").symlink_to(old.parent / "data")
    with pytest.raises(UserError, match=r"holds 'samples', which is not part of a bundle"):
        fill(old, "new", force=True)
    assert (old / "samples").is_symlink()
    assert contents(old) == {"manifest.json": "old"}


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UserError, match="exists and is not a directory"):
        fill(tmp_path / "out", "new", force=True)
    assert contents(tmp_path) == {"out": "a file"}


def test_a_link_to_a_bundle_stays_a_link(old: Path) -> None:
    link = old.with_name("latest")
    link.symlink_to(old)
    fill(link, "new", force=True)
    assert link.is_symlink()
    assert contents(old) == {"manifest.json": "new"}


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt()])
def test_an_error_leaves_everything_as_it_was(old: Path, error: BaseException) -> None:
    for directory in (old, old.parent / "a" / "b" / "new"):
        with pytest.raises(type(error)), replacing(directory, True, BUNDLE) as new:
            (new / "manifest.json").write_text("half")
            raise error
    assert contents(old.parent) == {"out/manifest.json": "old"}
    assert [path.name for path in old.parent.iterdir()] == ["out"]


def test_a_full_disk_is_reported_and_leaves_nothing(old: Path) -> None:
    message = r"cannot write .*out: No space left on device; free space"
    with pytest.raises(QuantkitError, match=message), replacing(old, True, BUNDLE) as new:
        (new / "manifest.json").write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert contents(old.parent) == {"out/manifest.json": "old"}


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuantkitError, match=r"cannot write .*file/out: Not a directory"):
        fill(tmp_path / "file" / "out", "new")


def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that cannot exchange two names."""
    monkeypatch.setattr(folders, "_exchanged", lambda first, second: False)


def test_a_file_system_without_exchange(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_exchange(monkeypatch)
    fill(old, "new", force=True)
    assert contents(old.parent) == {"out/manifest.json": "new"}
    assert [path.name for path in old.parent.iterdir()] == ["out"]


def test_the_old_bundle_comes_back_when_the_new_one_cannot_take_its_place(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_exchange(monkeypatch)
    rename, moved = os.rename, []

    def second_move_fails(source: Path, target: Path) -> None:
        # The first attempt of all is the one that finds the older bundle in its way.
        if moved and source.name.endswith("-new"):
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)
        moved.append(source)

    monkeypatch.setattr(os, "rename", second_move_fails)
    with pytest.raises(QuantkitError, match="Input/output error"):
        fill(old, "new", force=True)
    assert len(moved) == 2
    assert contents(old.parent) == {"out/manifest.json": "old"}


def test_an_older_bundle_that_a_killed_process_left_aside_goes_back(old: Path) -> None:
    aside = temporary_name(old, "old")
    old.rename(aside)
    with pytest.raises(UserError, match="holds a bundle already"):
        fill(old, "new")
    assert contents(old.parent) == {"out/manifest.json": "old"}
    aside.mkdir()
    fill(old, "new", force=True)
    assert contents(old.parent) == {"out/manifest.json": "new"}
    assert [path.name for path in old.parent.iterdir()] == ["out"]


def test_names_are_exchanged_in_one_step(old: Path) -> None:
    begun, ended = threading.Event(), threading.Event()
    missing = []

    def watch() -> None:
        while not ended.is_set():
            begun.set()
            if not (old / "manifest.json").exists():
                missing.append(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun.wait()
    try:
        for number in range(200):
            fill(old, str(number), force=True)
    finally:
        ended.set()
        watcher.join()
    assert not missing


def test_of_two_processes_that_write_the_first_wins_unless_forced(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds a bundle already"), replacing(tmp_path / "out", False, BUNDLE) as new:
        (new / "manifest.json").write_text("second")
        fill(tmp_path / "out", "first")
    assert contents(tmp_path) == {"out/manifest.json": "first"}
    with replacing(tmp_path / "out", True, BUNDLE) as new:
        (new / "manifest.json").write_text("second")
        fill(tmp_path / "out", "third", force=True)
    assert contents(tmp_path) == {"out/manifest.json": "second"}
    with pytest.raises(OSError, match="not empty"):
        put_folder(made(tmp_path / "new"), tmp_path / "out", replace=False)
    assert contents(tmp_path) == {"out/manifest.json": "second"}


_WRITES_AGAIN_AND_AGAIN = """
import sys
from pathlib import Path
from quantkit.bundle import BUNDLE
from quantkit.files.folders import replacing

for number in range(100):
    with replacing(Path(sys.argv[1]), True, BUNDLE) as new:
        for name in ("manifest.json", "card.toml"):
            (new / name).write_text(f"{sys.argv[2]} {number}")
"""


def test_of_processes_that_write_at_once_one_is_the_last(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITES_AGAIN_AND_AGAIN, tmp_path / "out", each], env=environment())
        for each in ("a", "b")
    ]
    assert [each.wait(60) for each in writers] == [0, 0]
    found = contents(tmp_path)
    assert set(found) == {"out/manifest.json", "out/card.toml"}
    (text,) = set(found.values())
    assert text in ("a 99", "b 99")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_the_umask_holds(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        fill(tmp_path / "out", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750


def test_checking_alone_changes_nothing(old: Path) -> None:
    check_destination(old, True, BUNDLE)
    check_destination(old.parent / "new", False, BUNDLE)
    assert contents(old.parent) == {"out/manifest.json": "old"}


def test_a_scratch_folder_is_not_blamed_for_what_happens_elsewhere(tmp_path: Path) -> None:
    for error, kind in (
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), BrokenPipeError),
        (PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "other")), PermissionError),
        (OSError(errno.ENOSPC, "No space left on device"), QuantkitError),
    ):
        with pytest.raises(kind), scratch_folder() as folder:
            raise error
        assert not folder.exists()
    with (
        pytest.raises(QuantkitError, match="cannot work with temporary files: No such file"),
        scratch_folder() as folder,
    ):
        (folder / "missing" / "file").write_text("")
