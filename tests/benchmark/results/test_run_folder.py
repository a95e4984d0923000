from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.results.result_files import read_results, write_run
from quantkit.benchmark.results.results import Run
from quantkit.benchmark.results.run_folder import claimed, continued, discard
from quantkit.errors import QuantkitError, UserError
from quantkit.files.temporary import temporary_name
from tests.benchmark.fakes import run_of, suite


@pytest.fixture
def run() -> Run:
    return replace(run_of(suite()), minutes=2.0, state="interrupted")


def test_only_one_process_measures_into_a_folder(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with claimed(folder):
        write_run(run, folder)
        with pytest.raises(UserError, match="another process is measuring"), claimed(folder):
            pytest.fail("two have it")
    with claimed(folder):
        pass
    assert (folder / "run.json").is_file()


def test_where_no_run_was_begun_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(QuantkitError, match="no build"), claimed(tmp_path / "new" / "out"):
        raise QuantkitError("no build")
    assert not (tmp_path / "new" / "out").exists()


def test_what_is_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(UserError, match="is not empty"), claimed(tmp_path):
        pytest.fail("a folder of letters")
    with pytest.raises(UserError, match="is a file"), claimed(tmp_path / "letter"):
        pytest.fail("a letter")
    with (
        pytest.raises(QuantkitError, match=r"cannot write .*letter/out: Not a directory"),
        claimed(tmp_path / "letter" / "out"),
    ):
        pytest.fail("a folder in a letter")
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_link_in_place_of_the_lock_is_not_followed(run: Run, tmp_path: Path) -> None:
    """Results come from strangers, too; filelock before 3.20.1 emptied the file that the link leads to."""
    folder, thesis = tmp_path / "out", tmp_path / "thesis"
    folder.mkdir()
    write_run(run, folder)
    thesis.write_text("years")
    (folder / ".lock").symlink_to(thesis)
    with pytest.raises(QuantkitError, match=r"cannot write .*out: Too many levels of symbolic links"), claimed(folder):
        pytest.fail("locked by a link")
    assert thesis.read_text() == "years"


def test_the_same_run_goes_on_and_a_finished_one_has_its_whole_budget(run: Run, tmp_path: Path) -> None:
    new = replace(run, minutes=0.0, state="running", warnings=("new", "both"))
    assert continued(new, tmp_path) == new
    write_run(replace(run, warnings=("old", "both")), tmp_path)
    assert continued(new, tmp_path) == replace(new, minutes=2.0, warnings=("new", "both", "old"))
    write_run(replace(run, state="finished"), tmp_path)
    assert continued(new, tmp_path) == new


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "other"}, "name"),
        ({"scenario": "latency"}, "scenario"),
        ({"baseline": "other"}, "baseline"),
        ({"host": {"id": "there"}}, "host"),
        ({"host": {"id": "here", "cpu_quota": 1.5}}, "host"),
        ({"host": {"id": "here", "governor": "powersave"}}, "frequency settings"),
    ],
)
def test_another_run_is_refused(change: dict[str, Any], words: str, run: Run, tmp_path: Path) -> None:
    write_run(replace(run, **change), tmp_path)
    with pytest.raises(UserError, match=rf"holds another run \({words} differ\)"):
        continued(run, tmp_path)
    discard(tmp_path)
    assert continued(run, tmp_path) == run


def test_a_run_on_its_way_out_is_nobodys(run: Run, tmp_path: Path) -> None:
    write_run(replace(run, state="discarded"), tmp_path)
    with pytest.raises(UserError, match="were discarded with --force"):
        read_results(tmp_path)
    with claimed(tmp_path):
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_damaged_run_can_be_discarded(tmp_path: Path) -> None:
    (tmp_path / "cells").mkdir()
    (tmp_path / "run.json").write_text("{")
    with claimed(tmp_path):
        discard(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_what_was_not_written_whole_is_removed(run: Run, tmp_path: Path) -> None:
    write_run(run, tmp_path)
    (tmp_path / "cells").mkdir()
    temporary_name(tmp_path / "cells" / "net-b1-fp32.json").write_text("{")
    with claimed(tmp_path):
        assert list((tmp_path / "cells").iterdir()) == []
