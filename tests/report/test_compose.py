"""What a report says, and in which order: the same on the page and in Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from quantkit.benchmark.results.results import Results
from quantkit.report.page.document import Block, Bullets, Document, Output, Picture, Text
from quantkit.report.page.html import page
from quantkit.report.page.markdown import markdown
from quantkit.report.page.table import FACTS, Table
from quantkit.report.study.words import marked, printable, ratio_text
from tests.report.reports import Page, report, section, table
from tests.report.showcase import complete
from tests.report.synthetic import INT8, NATIVE, results


def test_the_page_says_all_there_is(full: tuple[Document, Page, str]) -> None:
    given, parsed, _ = full
    part = given.parts[0]
    assert [each.title for each in part.sections] == [
        "Speed-up",
        "Where it comes from",
        "Accuracy",
        "Scaling over instances",
        "Latency",
        "Server",
        "Published figures",
        "Tables",
        "All measurements",
        "Set-up",
        "Warnings",
        "Left out",
        "Failures",
    ]
    for text in (
        *part.verdicts,
        *part.reservations,
        "AMD EPYC 9R14",
        "OMP_NUM_THREADS=4",
        "the processor slowed down for heat 3 times",
        "the hypervisor took 0.25 cores of processor time meanwhile (1 cell)",
        "needs 6.4 minutes",
        "drawn, batch size 8, INT8, instance 1: instance 1 was killed by signal 9 (killed)",
        "<b>last</b> line",
        "drawn has random weights.",
        "random weights, accuracy means nothing",
        "not distinguishable",
        "sequences/s",
        "Published: an article (a server: 48 cores, AVX512); a table",
        "not valid: performance constraints and early stopping",
    ):
        assert text in parsed.text, text


def test_headline_then_figures_then_tables_then_set_up(full: tuple[Document, Page, str]) -> None:
    given, parsed, _ = full
    part = given.parts[0]
    assert part.headline is not None
    places = [parsed.text.index(text) for text in (*part.headline.figures[0], part.verdicts[0], part.reservations[0])]
    assert places == sorted(places)
    pictures, tables, set_up = (
        [place for place, each in enumerate(part.sections) if any(isinstance(block, kind) for block in each.blocks)]
        for kind in (Picture, Table, (Bullets, Output))
    )
    assert max(pictures) < min(tables) < min(set_up)
    assert max(places) < parsed.text.index("Speed-up in throughput over native")


def shown(block: Block) -> list[str]:
    """The texts of a block, in the order in which they are shown."""
    if isinstance(block, Text):
        return [block.text]
    if isinstance(block, Bullets):
        return list(block.items)
    if isinstance(block, Table):
        heads = [] if block.columns == FACTS else list(block.columns)
        return [block.title, *heads, *(value for row in block.rows for value in row), block.remarks]
    if isinstance(block, Picture):
        return [block.figure.title, block.figure.remarks]
    return list(block.lines)


@pytest.mark.parametrize("several", [False, True])
def test_page_and_markdown_say_the_same_in_the_same_order(several: bool) -> None:
    given, _ = report(complete(), *([results(title="Second", name="second")] if several else []), price=3.06)
    texts = [given.title]
    for part in given.parts:
        assert part.headline is not None
        texts += [text for pair in (*part.headline.figures, *part.headline.facts) for text in pair]
        texts += [*part.verdicts, *part.reservations]
    for part in given.parts:
        texts += [part.title] * several
        for each in part.sections:
            texts += [each.title, *(text for block in each.blocks for text in shown(block))]
    for made in (Page(page(given)).text, re.sub(r"\\(.)", r"\1", markdown(given))):
        place = 0
        for text in map(printable, texts):
            place = made.find(text, place)
            assert place >= 0, text


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        (("Early stopping satisfied: NO", "Early Stopping Result:", "* Run unsuccessful."), "early stopping"),
        (("something new",), "something new"),
        ((), "no reason given"),
    ],
)
def test_loadgens_reasons_are_the_conditions_not_met(why: tuple[str, ...], shown: str) -> None:
    given = complete()
    cells = []
    for cell in given.cells:
        if cell.server:
            trials = tuple(replace(trial, valid=False, why=why) for trial in cell.server.trials)
            cell = replace(cell, server=replace(cell.server, trials=trials))
        cells.append(cell)
    found, _ = report(Results(given.run, tuple(cells)))
    assert {row[-1] for row in table(found, "Rates of requests").rows} == {f"not valid: {shown}"}


def test_every_ratio_of_a_table_has_its_interval() -> None:
    given, (study,) = report(complete())
    found = table(given, "Speed-up in throughput over native")
    columns = {name: number for number, name in enumerate(found.columns)}
    rows = {row.key: row for row in study.rows}
    for line in found.rows:
        network = line[0]
        for name in ("MKL-DNN", "fused", "INT8", "INT8 pinned"):
            row = rows.get((network, int(line[1]), name))
            doubtful = study.doubtful(network, int(line[1]), name, "native")
            assert line[columns[name]] == (marked(ratio_text(row.speedup), doubtful) if row else "no result")
    assert "drawn has random weights." in found.remarks


def test_a_source_of_several_tables_is_cited_once() -> None:
    given = complete()
    (source,) = given.run.sources
    run = replace(given.run, sources=(source, replace(source, table="its other table")))
    cited = page(report(Results(run, given.cells))[0])
    assert cited.count("an article (a server: 48 cores, AVX512)") == 1


def test_published_figures_stand_beside_ours_with_their_share_and_machine() -> None:
    given, (study,) = report(complete())
    row = next(each for each in study.rows if each.key == ("good", 8, "INT8"))
    ratio, speed = row.speedups["throughput"], row.throughput
    beside = [(line[3], line[5], line[6], line[7]) for line in table(given, "Published figures and ours").rows]
    assert beside == [
        ("throughput, times native", "28.25", f"{ratio.value / 28.25:.0%}", "a server: 48 cores, AVX512"),
        ("images/s", "1297.5", f"{speed / 1297.5:.0%}", ""),
    ]


def test_a_figure_for_another_batch_size_says_for_which() -> None:
    whole = complete()
    figures = tuple(replace(each, batch=224, nearest=True) for each in whole.run.published)
    given, _ = report(replace(whole, run=replace(whole.run, published=figures)))
    beside = [(line[1], line[7]) for line in table(given, "Published figures and ours").rows]
    assert beside == [("8", "a server: 48 cores, AVX512, batch 224"), ("8", "batch 224")]


def test_the_machine_is_named_beside_published_figures() -> None:
    whole = complete()
    given, _ = report(replace(whole, run=replace(whole.run, host={**whole.run.host, "isa": ["AVX2", "AVX512-VNNI"]})))
    told = table(given, "Published figures and ours").note
    assert told.startswith("This machine: 8 cores, AVX512-VNNI. The share is ours")


def test_without_a_baseline_no_column_is_invented() -> None:
    whole = results(contestants=(NATIVE, INT8))
    given, _ = report(Results(whole.run, tuple(each for each in whole.cells if each.contestant == INT8)))
    assert [block.text for block in section(given, "Speed-up").blocks] == [  # type: ignore[union-attr]
        "No speed-up is given: the baseline, native, has no result."
    ]
    assert not any("speed-up" in column for column in table(given, "resnet50_v1").columns)
    partly, _ = report(Results(whole.run, whole.cells[1:]))
    assert table(partly, "Speed-up in throughput over native").rows[0][2:] == ("no result", "no baseline")


def test_cost_is_shown_only_where_it_was_asked_for() -> None:
    priced, (study,) = report(results(), price=3.06)
    rows = {row.key: row for row in study.rows}
    found = table(priced, "Cost per million images")
    expected = 3.06 / 3600 / rows["resnet50_v1", 1, "native"].throughput * 1e6
    assert float(found.rows[0][2]) == pytest.approx(expected, rel=5e-3)
    assert "Cost" not in [each.title for each in report(results())[0].parts[0].sections]


def test_several_runs_have_a_part_each() -> None:
    given, _ = report(complete(), results(title="Second", name="second"))
    assert (given.title, [part.title for part in given.parts]) == ("Benchmark results", ["Demonstration", "Second"])
    assert {picture.file.rpartition("/")[0] for picture in given.pictures} == {"figures/1", "figures/2"}
    parsed = Page(page(given))
    ids = [value for _, name, value in parsed.attributes if name == "id"]
    assert len(ids) == len(set(ids))
