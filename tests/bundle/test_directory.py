from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from quantkit.bundle.directory import check_destination, replacing
from quantkit.errors import QuantkitError, UserError


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, with its text."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def fill(directory: Path, text: str, force: bool = False) -> None:
    with replacing(directory, force) as new:
        (new / "manifest.json").write_text(text)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A bundle, as far as this room knows."""
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
    with pytest.raises(UserError, match=r"holds 'notes.txt', which is no part of a bundle"):
        fill(old, "new", force=True)
    assert contents(old) == {"manifest.json": "old", "notes.txt": "mine"}


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
        with pytest.raises(type(error)), replacing(directory, force=True) as new:
            (new / "manifest.json").write_text("half")
            raise error
    assert contents(old.parent) == {"out/manifest.json": "old"}
    assert [path.name for path in old.parent.iterdir()] == ["out"]


def test_a_full_disk_is_reported_and_leaves_nothing(old: Path) -> None:
    message = r"cannot write .*out: No space left on device; free space"
    with pytest.raises(QuantkitError, match=message), replacing(old, force=True) as new:
        (new / "manifest.json").write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert contents(old.parent) == {"out/manifest.json": "old"}


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(QuantkitError, match=r"cannot write .*file/out: Not a directory"):
        fill(tmp_path / "file" / "out", "new")


def test_the_old_bundle_comes_back_when_the_new_one_cannot_take_its_place(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace
    calls = []

    def second_fails(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(QuantkitError, match="Input/output error"):
        fill(old, "new", force=True)
    assert contents(old.parent) == {"out/manifest.json": "old"}


def test_the_umask_holds(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        fill(tmp_path / "out", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750


def test_checking_alone_changes_nothing(old: Path) -> None:
    check_destination(old, force=True)
    check_destination(old.parent / "new")
    assert contents(old.parent) == {"out/manifest.json": "old"}
