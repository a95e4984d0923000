from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from quantkit.benchmark.results import Run, write_run
from quantkit.benchmark.run_folder import claimed, continued, discard
from quantkit.errors import QuantkitError, UserError
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


def test_the_same_run_goes_on_and_a_finished_one_has_its_whole_budget(run: Run, tmp_path: Path) -> None:
    assert continued(run, tmp_path) == 0.0
    write_run(run, tmp_path)
    assert continued(replace(run, minutes=0.0, state="running"), tmp_path) == 2.0
    write_run(replace(run, state="finished"), tmp_path)
    assert continued(run, tmp_path) == 0.0


@pytest.mark.parametrize("name", ["name", "scenario", "baseline", "host"])
def test_another_run_is_refused(name: str, run: Run, tmp_path: Path) -> None:
    other = replace(run, host={"id": "there"}) if name == "host" else replace(run, **{name: "other"})
    write_run(other, tmp_path)
    with pytest.raises(UserError, match=rf"holds another run \({name} differ\)"):
        continued(run, tmp_path)
    discard(tmp_path)
    assert continued(run, tmp_path) == 0.0
