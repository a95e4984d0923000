"""Files appear whole, and take the place of files only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from quantkit.errors import QuantkitError, UserError
from quantkit.files.files import home, writing


def test_what_fails_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), writing(path) as file:
        file.write(b"new")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with writing(link) as file:
        file.write(b"new")
    assert (link.is_symlink(), target.read_text()) == (True, "new")


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(QuantkitError, match="not an ordinary file"), writing(path):
        pass
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


def test_the_home_folder_may_be_meant_by_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for value, folder in (("", ".cache/quantkit"), ("~/kept", "kept"), ("~", ".")):
        monkeypatch.setenv("QUANTKIT_HOME", value)
        assert home() == tmp_path / folder
    monkeypatch.setenv("QUANTKIT_HOME", "~nobody-has-this-name/kept")
    with pytest.raises(UserError, match="no home folder; set QUANTKIT_HOME"):
        home()


def test_a_home_that_cannot_be_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    for value, reason in ((tmp_path / ("x" * 300), "File name too long"), (circle, "Too many levels of symbolic")):
        monkeypatch.setenv("QUANTKIT_HOME", str(value))
        with pytest.raises(UserError, match=f"cannot keep anything in {value}: {reason}.*; set QUANTKIT_HOME to"):
            home()
