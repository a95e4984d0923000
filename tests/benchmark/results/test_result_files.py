from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.benchmark.build import Build
from quantkit.benchmark.results.result_files import CELLS, read_cells, read_results, read_run, write_cell, write_run
from quantkit.benchmark.results.results import Failure
from quantkit.errors import UserError
from tests.benchmark.cells import cell, closed_loop
from tests.benchmark.fakes import run_of, suite


def test_what_is_written_is_read(tmp_path: Path) -> None:
    (tmp_path / CELLS).mkdir()
    written = cell([[closed_loop([3, 4])], [closed_loop([5])]])
    write_run(run_of(suite()), tmp_path)
    write_cell(written, tmp_path)
    assert read_results(tmp_path).cells == (written,)
    assert read_results(tmp_path).run == run_of(suite())


def test_a_run_from_when_mxnet_was_the_only_engine_is_read(tmp_path: Path) -> None:
    build = Build("onednn", "~/python", "3.11.7", "1.26.4", "1.9.1", "/lib", ("MKLDNN",), True)
    run = replace(run_of(suite()), builds=(build,))
    write_run(run, tmp_path)
    written = (tmp_path / "run.json").read_text()
    before = written.replace('"version":', '"mxnet":').replace(',"engine":"mxnet"', "")
    assert before != written
    (tmp_path / "run.json").write_text(before)
    assert read_run(tmp_path) == run


def test_failures_are_written_with_placeholders(tmp_path: Path) -> None:
    (tmp_path / CELLS).mkdir()
    failure = Failure(
        "crashed", 0, f"cannot read {tmp_path}/x", (f'  File "{tmp_path}/net.py", line 3', "at /srv/of/me/y.so")
    )
    write_cell(cell([], failure=failure, environment={"LD_PRELOAD": f"{tmp_path}/libiomp5.so"}), tmp_path)
    (found,) = read_cells(tmp_path)
    assert found.failure is not None
    said = [found.failure.message, *found.failure.stderr, *found.environment.values()]
    assert not any(str(tmp_path) in text or "/srv" in text for text in said)
    assert said[2] == "at …/y.so"
    assert found.environment["LD_PRELOAD"].endswith("/libiomp5.so")


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    run = run_of(suite())
    for changed, name in (
        (replace(run, contestants=(replace(run.contestants[0], variant="int2"),)), "'int2'"),
        (replace(run, builds=(Build("b", "p", "3.11.7", "1.26.4", "1.0", "/lib", (), True, "tvm"),)), "'tvm'"),
    ):
        write_run(changed, tmp_path)
        with pytest.raises(UserError, match=f"tells of {name}, no engine or variant that this quantkit knows"):
            read_run(tmp_path)


@pytest.mark.parametrize("engine", [{"settings": [1]}, {"settings": "x"}, {"libraries": 3}, {"libraries": {}}])
def test_what_an_engine_told_has_the_form_that_reports_read(engine: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / CELLS).mkdir()
    write_cell(cell([[closed_loop([3])]], engine=engine), tmp_path)
    with pytest.raises(UserError, match=f"is damaged: engine.{next(iter(engine))} is no (dict|list)"):
        read_cells(tmp_path)


@pytest.mark.parametrize(
    ("ticks", "words"),
    [
        ([], "has 0 instances instead of 1"),
        ([{"starts": [], "ends": []}], "0 starts and 0 ends"),
        ([{"starts": [1, 2], "ends": [2]}], "2 starts and 1 ends"),
        ([{"starts": [5], "ends": [5]}], "a request ends before it starts"),
        ([{"starts": [0], "ends": [1]}, {"starts": [2], "ends": [3]}], "no time in common"),
        ([{"starts": [0], "ends": ["x"]}], "ends"),
        ([{"starts": [0], "ends": [2**62]}], "more than 62 bits"),
    ],
)
def test_clock_readings_that_cannot_be_true_are_refused(
    ticks: list[Mapping[str, Any]], words: str, tmp_path: Path
) -> None:
    (tmp_path / CELLS).mkdir()
    sound = cell([[closed_loop([3])]])
    write_cell(cell([[closed_loop([3])]], placements=sound.placements * max(1, len(ticks))), tmp_path)
    (path,) = (tmp_path / CELLS).iterdir()
    document = json.loads(path.read_text())
    document["rounds"][0]["instances"] = ticks
    path.write_text(json.dumps(document))
    with pytest.raises(UserError, match=f"is damaged: rounds.0.*{words}"):
        read_cells(tmp_path)


def test_a_round_of_nobody_is_refused(tmp_path: Path) -> None:
    (tmp_path / CELLS).mkdir()
    write_cell(cell([[]], placements=()), tmp_path)
    with pytest.raises(UserError, match=r"is damaged: rounds\.0: it has no instances"):
        read_cells(tmp_path)


def test_cells_lie_in_the_folder_of_their_run(tmp_path: Path) -> None:
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "run"
    (elsewhere / CELLS).mkdir(parents=True)
    folder.mkdir()
    write_cell(cell([[closed_loop([3])]]), elsewhere)
    (folder / CELLS).symlink_to(elsewhere / CELLS)
    with pytest.raises(UserError, match="is a link out of"):
        read_cells(folder)
