from __future__ import annotations

import os
from pathlib import Path

import pytest

from quantkit.errors import UserError
from quantkit.files.contained import file_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder ``here`` with files and links of all kinds, and a secret beside it."""
    here = tmp_path / "here"
    (here / "sub").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "here-too").mkdir()
    (tmp_path / "here-too" / "secret").write_text("secret")
    for name in ("own", "sub/own", "..data"):
        (here / name).write_text("own")
    (here / "inside").symlink_to("sub/own")
    (here / "outside").symlink_to(tmp_path / "secret")
    (here / "beside").symlink_to("../here-too")
    (here / "up").symlink_to("..")
    (here / "dangling").symlink_to("nothing")
    (here / "loop").symlink_to("loop")
    os.mkfifo(here / "pipe")
    return here


@pytest.mark.parametrize("name", ["own", "./own", "sub/own", "inside", "absent", "sub/absent", "..data"])
@pytest.mark.parametrize("relative", [False, True])
def test_what_lies_in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, relative: bool) -> None:
    monkeypatch.chdir(folder)
    given = Path() if relative else folder
    assert file_in(given, name) == given / name


def test_the_folder_itself_may_be_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(folder)
    assert file_in(tmp_path / "current", "own").read_text() == "own"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "does not lie in"),
        ("/etc/passwd", "'/etc/passwd' does not lie in"),
        ("/proc/self/environ", "does not lie in"),
        ("../secret", "does not lie in"),
        ("sub/../../secret", "does not lie in"),
        ("sub/../own", "does not lie in"),
        ("own\0", "does not lie in"),
        ("outside", "outside is a link out of"),
        ("up/secret", "is a link out of"),
        ("beside/secret", "is a link out of"),
        ("sub", "not an ordinary file"),
        ("pipe", "not an ordinary file"),
        ("loop", "not an ordinary file"),
        ("dangling", "not an ordinary file"),
    ],
)
def test_what_does_not(folder: Path, name: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        file_in(folder, name)
