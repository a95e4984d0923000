"""Whether the folder for downloads can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.host.facts import _version, _writable


def test_a_folder_that_can_be_made_is_writable(tmp_path: Path) -> None:
    assert _writable(tmp_path)
    assert _writable(tmp_path / "a" / "b")


def test_a_file_in_the_way_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").touch(mode=0o755)
    assert not _writable(tmp_path / "a" / "b")


@pytest.mark.requires("user")
def test_a_folder_of_others_is_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert not _writable(tmp_path / "a")


def test_versions_without_import() -> None:
    assert _version("pytest") == pytest.__version__
    assert _version("no_such_package_at_all") is None
