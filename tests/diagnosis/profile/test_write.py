from __future__ import annotations

import json
from pathlib import Path

import pytest

from quantkit.diagnosis.profile.write import write_trace
from quantkit.errors import QuantkitError


def test_folders_are_made_and_what_is_there_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "trace.json"
    write_trace({"traceEvents": ["ä"]}, path)
    assert json.loads(path.read_text()) == {"traceEvents": ["ä"]}
    write_trace({}, path)
    assert [each.read_text() for each in path.parent.iterdir()] == ["{}"]


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(QuantkitError, match=r"cannot make .*choose another folder"):
        write_trace({}, tmp_path / "file" / "trace.json")
    assert (tmp_path / "file").read_text() == "mine"
