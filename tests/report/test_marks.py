"""Cells with warnings are marked in every table that shows their figures, and so is the commit of a run told."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from quantkit.benchmark.placement.proof import Proof
from quantkit.benchmark.results.results import Cell, Results
from quantkit.cli.speed import tables as terminal_tables
from quantkit.host.revision import Revision
from quantkit.report.compose import document
from quantkit.report.export import csv_text, json_text
from quantkit.report.page.document import Document
from quantkit.report.page.html import page
from quantkit.report.page.markdown import markdown
from quantkit.report.page.table import Table
from quantkit.report.setup import contestants, provenance
from quantkit.report.study.summary import Study, summarize
from quantkit.report.study.words import LEGEND, MARK
from tests.report.synthetic import CONTESTANTS, INT8, NATIVE, results, served


def _with(given: Results, contestant: str, batch: int, **fields: object) -> Results:
    def changed(cell: Cell) -> Cell:
        chosen = (cell.contestant.name, cell.batch) == (contestant, batch)
        return replace(cell, **fields) if chosen else cell  # type: ignore[arg-type]

    return Results(given.run, tuple(map(changed, given.cells)))


def _calm() -> Results:
    return results(batches=(1, 8), contestants=CONTESTANTS)


def _doubtful(contestant: str = "INT8", batch: int = 8) -> Results:
    return _with(_calm(), contestant, batch, warnings=("few samples: 3 requests in 1 rounds",))


def _tables(given: Results) -> tuple[Document, Study, list[Table]]:
    (study,) = summarize([given], [1.0])
    made = document([study])
    sections = [block for part in made.parts for each in part.sections for block in each.blocks]
    return made, study, [block for block in sections if isinstance(block, Table)]


def test_without_warnings_there_is_no_mark() -> None:
    made, _, found = _tables(_calm())
    assert MARK not in page(made) + markdown(made)
    assert all(LEGEND not in each.remarks for each in found)


@pytest.mark.parametrize(
    ("title", "rows"),
    [
        ("Speed-up in throughput over native", 1),
        ("Steps from native", 1),
        ("Cost per million images", 1),
        ("resnet50_v1", 1),
        ("Placements", 1),
    ],
)
def test_each_table_marks_the_cell_and_says_what_that_means(title: str, rows: int) -> None:
    _, _, found = _tables(_doubtful("INT8 pinned" if title == "Placements" else "INT8"))
    (table,) = [each for each in found if each.title == title]
    marked = [row for row in table.rows if any(MARK in value for value in row)]
    assert len(marked) == rows
    assert LEGEND in table.remarks


def test_a_doubtful_baseline_makes_every_ratio_to_it_doubtful() -> None:
    _, _, found = _tables(_doubtful("native"))
    (table,) = [each for each in found if each.title == "Speed-up in throughput over native"]
    (row,) = [row for row in table.rows if row[1] == "8"]
    assert all(MARK in value for value in row[2:])


def test_rates_of_requests_are_marked() -> None:
    given = results(contestants=(NATIVE, INT8))
    cell = replace(served("resnet50_v1", INT8, 40.0), warnings=("LoadGen was late itself",))
    _, study, found = _tables(Results(given.run, (*given.cells[:1], cell)))
    (table,) = [each for each in found if each.title == "Rates of requests"]
    assert all(MARK in row[4] for row in table.rows)
    made = document([study])
    (told,) = json.loads(json_text(made, [study]))["runs"][0]["served"]
    assert told["warnings"] == ["LoadGen was late itself"]
    (line,) = [line for line in csv.DictReader(io.StringIO(csv_text([study]))) if line["status"] == "served"]
    assert line["warnings"] == "LoadGen was late itself"


def test_page_and_markdown_have_mark_legend_and_count() -> None:
    made, _, _ = _tables(_doubtful())
    for text in (page(made), markdown(made)):
        assert MARK in text
        assert LEGEND[2:40] in text
        assert f"1 of {2 * len(CONTESTANTS)}" in text


def test_json_says_which_figures_are_doubtful() -> None:
    made, study, _ = _tables(_doubtful())
    (found,) = json.loads(json_text(made, [study]))["runs"]
    assert [cell["contestant"] for cell in found["cells"] if cell["warnings"]] == ["INT8"]
    doubts = {each["batch"]: [step["doubtful"] for step in each["steps"]] for each in found["attributions"]}
    assert not any(doubts[1])
    assert any(doubts[8])


def test_the_terminal_marks_them() -> None:
    from rich.console import Console

    console = Console(width=200, record=True, file=io.StringIO())
    for part in terminal_tables(_doubtful()):
        console.print(part)
    text = console.export_text()
    assert sum(MARK in line for line in text.splitlines()) == 2
    assert LEGEND[:40] in text


@pytest.mark.parametrize(
    ("revision", "told"),
    [
        (None, "not recorded"),
        (Revision("unknown", None), "unknown"),
        (Revision("a" * 40, True), "aaaaaaaaaaaa (with changes that are not committed)"),
    ],
)
def test_the_commit_is_shown(revision: Revision | None, told: str) -> None:
    given = _calm()
    given = Results(replace(given.run, revision=revision), given.cells)
    made, study, _ = _tables(given)
    assert ("commit", told) in provenance(given.run).rows
    assert told in page(made)
    assert {line["commit"] for line in csv.DictReader(io.StringIO(csv_text([study])))} == {told}
    (found,) = json.loads(json_text(made, [study]))["runs"]
    assert found["revision"] == (None if revision is None else {"commit": revision.commit, "dirty": revision.dirty})


def test_memory_is_proven_or_said_not_to_be() -> None:
    def memory(given: Results, name: str) -> str:
        (study,) = summarize([given])
        (row,) = [row for row in contestants(study).rows if row[0].removesuffix(" (baseline)") == name]
        return row[6]

    given = _calm()
    proofs = next(cell for cell in given.cells if cell.contestant.name == "INT8").proofs
    placements = next(cell for cell in given.cells if cell.contestant.name == "INT8").placements
    bound = tuple(replace(each, nodes=(0,)) for each in placements)
    proven = tuple(Proof(2, 2, (0, 1), {0: 100}) for _ in placements)
    assert proofs == ()
    for batch in (1, 8):
        given = _with(given, "INT8", batch, placements=bound, proofs=proven)
    assert memory(given, "INT8") == "proven on node 0"
    for blind in ((), tuple(replace(each, pages=None) for each in proven)):
        assert memory(_with(given, "INT8", 8, proofs=blind), "INT8") == "not proven in 1 of 2 cells"
    unbound = tuple(replace(each, nodes=None) for each in placements)
    for batch in (1, 8):
        given = _with(given, "INT8", batch, placements=unbound)
    assert memory(given, "INT8") == "not bound"
