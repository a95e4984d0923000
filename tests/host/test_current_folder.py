from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from quantkit.host.current_folder import searching_elsewhere, without_current_folder


def test_every_name_of_the_current_folder_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, link = tmp_path / "here", tmp_path / "link"
    here.mkdir()
    link.symlink_to(here)
    monkeypatch.chdir(here)
    entries = ["", ".", "sub", str(here), str(link), f"{here}/", str(here / "sub"), str(tmp_path), "/usr/lib"]
    assert without_current_folder(entries) == [str(here / "sub"), str(tmp_path), "/usr/lib"]


def test_the_folders_of_python_stay_where_it_is_started_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    library = sysconfig.get_path("stdlib")
    monkeypatch.chdir(library)
    assert without_current_folder(["", library, "/usr/lib"]) == [library, "/usr/lib"]


def test_a_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert without_current_folder(["", "/usr/lib", str(tmp_path)]) == ["/usr/lib", str(tmp_path)]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/a:/b", "/a:/b"),
        (":/a", "/a"),
        ("/a:", "/a"),
        ("/a::/b", "/a:/b"),
        (".:/a:bin", "/a"),
        (":", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH"])
def test_libraries_and_programs_are_not_looked_for_in_relative_folders(name: str, given: str, kept: str | None) -> None:
    found = searching_elsewhere({name: given, "OTHER": ":."})
    assert (found.get(name), found["OTHER"]) == (kept, ":.")
    assert (name in found) == (kept is not None)
