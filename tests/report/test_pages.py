"""The page, Markdown, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Optional

import pytest

from quantkit.benchmark.build import Build
from quantkit.benchmark.results.results import Agreement, Contestant, Kernels, Network, Results
from quantkit.report.compose import document
from quantkit.report.export import csv_text, json_text
from quantkit.report.page.document import Block, Bullets, Document, Output, Picture, Section, Text
from quantkit.report.page.html import page
from quantkit.report.page.markdown import escaped, markdown
from quantkit.report.page.table import FACTS, Table
from quantkit.report.setup import grouped_warnings, kernels, ranges
from quantkit.report.study.accuracy import graded
from quantkit.report.study.headline import machine, speeds
from quantkit.report.study.summary import Study, summarize
from quantkit.report.study.words import marked, printable, ratio_text
from tests.report.showcase import HOSTILE, complete, hostile
from tests.report.synthetic import BUILDS, FUSED, INT8, MKLDNN, NATIVE, results

VOID = {"meta", "br", "img", "input", "link", "hr"}


class Page(HTMLParser):
    """A page taken apart; fails where elements are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, Optional[str]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, Optional[str]]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, *each) for each in attributes]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, Optional[str]]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, *each) for each in attributes]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


def report(*given: Results, price: Optional[float] = None) -> tuple[Document, tuple[Study, ...]]:
    studies = summarize(given, price)
    return document(studies), studies


def section(given: Document, title: str) -> Section:
    return next(each for each in given.parts[0].sections if each.title == title)


def table(given: Document, title: str) -> Table:
    tables = [
        block for part in given.parts for each in part.sections for block in each.blocks if isinstance(block, Table)
    ]
    return next(each for each in tables if each.title == title)


@pytest.fixture(scope="module")
def full() -> tuple[Document, Page, str]:
    given = report(complete(), price=3.06)[0]
    text = page(given)
    return given, Page(text), text


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
        "Published figures: a table",
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


def test_the_page_needs_nothing_else(full: tuple[Document, Page, str]) -> None:
    _, parsed, text = full
    assert not parsed.tags.keys() & {"script", "link", "img", "iframe", "object"}
    for _, name, value in parsed.attributes:
        if name in ("href", "src", "xlink:href"):
            assert value
            assert value.startswith("#")
    assert "http" not in re.sub(r"http-equiv", "", text)
    assert "@import" not in text


def test_the_page_is_sound(full: tuple[Document, Page, str]) -> None:
    _, parsed, text = full
    ids = [value for _, name, value in parsed.attributes if name == "id"]
    targets = {value[1:] for _, name, value in parsed.attributes if name == "href" and value}
    assert len(ids) == len(set(ids))
    assert targets <= set(ids)
    pictures = [attributes for attributes in re.findall(r"<svg ([^>]*)>", text) if "aria-hidden" not in attributes]
    assert pictures
    assert all('role="img"' in each and re.search(r'aria-label="[^"]{20,}', each) for each in pictures)
    assert parsed.tags["table"] == parsed.tags["caption"] == text.count('tabindex="0" aria-label') - text.count("<pre")
    assert text.count('<html lang="en">') == 1
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_intervals_are_not_broken_across_lines(full: tuple[Document, Page, str]) -> None:
    given, _, text = full
    ratio = table(given, "Speed-up in throughput over native").rows[0][3]
    value, interval = ratio.split(" ", 1)
    assert f'<td class="number">{value} <span class="unbroken">{interval}</span></td>' in text


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
    published = {(line[0], line[1]): line[columns["INT8, published"]] for line in found.rows}
    assert published == {
        ("good", "1"): "",
        ("good", "8"): "28.0",
        ("drawn", "1"): "",
        ("drawn", "8"): "",
    }
    assert "drawn has random weights." in found.remarks


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


def test_hostile_names_stay_text() -> None:
    given, _ = report(hostile())
    parsed = Page(page(given))
    assert "script" not in parsed.tags
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on")]
    assert printable(HOSTILE) in parsed.text
    assert "{{ 7 * 7 }}" in parsed.text
    assert "\u202e" not in parsed.text
    assert "\x1b" not in parsed.text


def test_hostile_texts_stay_text_in_columns_of_numbers() -> None:
    given, _ = report(results())
    section = Section("s", (Table("t", ("a", "b"), (("c", f"1 ({HOSTILE})"),), frozenset({1})),))
    text = page(replace(given, parts=(replace(given.parts[0], sections=(section,)),)))
    assert "script" not in Page(text).tags
    assert printable(HOSTILE) in Page(text).text
    assert "\u202e" not in text


def test_markdown_keeps_its_tables_whole() -> None:
    for given in (complete(), hostile()):
        text = markdown(report(given)[0])
        width = 0
        for line in text.splitlines():
            cells = len(re.split(r"(?<!\\)\|", line)) if line.startswith("|") else 0
            assert width in (0, cells) or cells == 0, line
            width = cells
        assert "\u202e" not in text


def test_markdown_escapes_markup() -> None:
    assert escaped("a|b_c*<i>`[x](y)\n# z") == r"a\|b\_c\*\<i\>\`\[x\](y)" + "\ufffd\\# z"
    assert [escaped(text) for text in ("- a", "1. a", "12)", "1.5", "a - b", "==")] == [
        r"\- a",
        r"1\. a",
        r"12\)",
        "1.5",
        "a - b",
        r"\==",
    ]
    text = markdown(report(hostile())[0])
    outside = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    assert not re.search(r"(?<!\\)<", outside)
    assert set(re.findall(r"(?<!\\)\[[^\]]*\]\(([^)]*)\)", outside)) == {
        f"figures/{name}.png" for name in ("throughput", "latency", "distribution")
    }


def test_json_holds_the_rows() -> None:
    given, studies = report(complete(), price=2.0)
    found = json.loads(json_text(given, studies))
    (run,) = found["runs"]
    assert found["host"] == complete().run.host
    assert tuple(run["verdicts"]) == given.parts[0].verdicts
    speed = speeds(studies[0])[0]
    assert run["headline"]["speeds"][0]["ratio"]["value"] == speed.ratio.value
    assert run["headline"]["machine"] == machine(found["host"])
    assert len(run["cells"]) == len(studies[0].rows)
    for cell, row in zip(run["cells"], studies[0].rows):
        assert (cell["network"], cell["batch"], cell["contestant"]) == row.key
        assert cell["throughput"] == row.throughput
        assert cell["p99_ms"] == row.percentiles[2]
        assert {name: each["value"] for name, each in cell["speedups"].items()} == {
            name: each.value for name, each in row.speedups.items()
        }
    assert run["failed"][0]["stderr"] == ["first line", "<b>last</b> line"]
    assert run["left_out"][0]["reason"] == "needs 6.4 minutes"
    assert run["served"][0]["server"]["rate"] == 90.0


def test_unbounded_intervals_are_null_in_json() -> None:
    whole = results(batches=(1,), contestants=(NATIVE, INT8))
    cells = tuple(replace(each, rounds=each.rounds[:1]) for each in whole.cells)
    given, studies = report(Results(whole.run, cells))
    speedup = json.loads(json_text(given, studies))["runs"][0]["cells"][1]["speedups"]["throughput"]
    assert (speedup["low"], speedup["high"], speedup["verdict"]) == (None, None, "not distinguishable")
    assert "(no interval)" in page(given)


def test_csv_has_every_cell_once() -> None:
    _, studies = report(complete())
    lines = list(csv.DictReader(io.StringIO(csv_text(studies))))
    keys = [(line["network"], line["batch"], line["contestant"]) for line in lines]
    assert len(keys) == len(set(keys))
    assert Counter(line["status"] for line in lines) == {"measured": 19, "failed": 1, "left out": 1, "served": 1}
    by_key = dict(zip(keys, lines))
    for row in studies[0].rows:
        line = by_key[row.network, str(row.batch), row.contestant]
        assert float(line["throughput"]) == row.throughput
        if row.speedups:
            assert float(line["speedup_latency_low"]) == row.speedups["latency"].low
    assert by_key["drawn", "8", "INT8"]["reason"] == "instance 1 was killed by signal 9"
    assert by_key["good", "8", "INT8"]["speedup_throughput_published"] == "28.0"
    assert by_key["drawn", "1", "INT8"]["weights"] == "random"


def test_csv_holds_no_formulas() -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(report(hostile())[1]))))
    assert "'=1+1" in {line["network"] for line in lines}
    assert HOSTILE in {line["network"] for line in lines}


def test_warnings_alike_are_drawn_together() -> None:
    given = results(batches=(1, 8), contestants=(NATIVE, INT8))
    texts = ("slow 0.25 of 4", "slow 0.5 of 4", "slow 10 of 4", "other")
    cells = tuple(replace(cell, warnings=(text,)) for cell, text in zip(given.cells, texts))
    (study,) = summarize([Results(given.run, cells)])
    assert grouped_warnings(study) == ("slow 0.25 to 10 of 4 (3 cells)", "other (1 cell)")


def test_processors_are_drawn_together() -> None:
    assert ranges((3, 0, 1, 2, 8, 10, 11)) == "0-3,8,10-11"


def test_a_large_page_stays_small() -> None:
    names = [f"network{number}" for number in range(8)]
    given = results(names, (1, 2, 4, 8, 16, 32, 64), (NATIVE, MKLDNN, FUSED, INT8))
    assert len(page(report(given, price=3.06)[0]).encode()) < 3_000_000


def test_other_engines_stand_beside_mxnet() -> None:
    builds = (*BUILDS, Build("openvino", "/p", "3.11", "1.26.4", "2026.4.1", "/l", ("INT8",), True, "openvino"))
    exported, nncf = Contestant("OpenVINO", "openvino", "int8", "node"), Contestant("NNCF", "openvino", "nncf", "node")
    given = results(("net",), (1,), (NATIVE, INT8, exported, nncf), {"INT8": 9.0, "OpenVINO": 8.0, "NNCF": 8.0})
    told = {
        "native": {},
        "INT8": {},
        "OpenVINO": {"kernels": Kernels(53, 54), "agreement": Agreement("quantkit", 1e-3, 1 / 127)},
        "NNCF": {
            "agreement": Agreement("native", 0.06, None), "environment": {},
            "engine": {"openvino": "2026.4.1", "libraries": ["libtbb.so.12"], "settings": {"NUM_STREAMS": 1}},
        },
    }  # fmt: skip
    cells = [replace(each, **told[each.contestant.name]) for each in given.cells]
    network = Network("net", "trained", 10**9, accuracy={"cosine": 0.99})
    found = summarize([Results(replace(given.run, builds=builds, networks=(network,)), tuple(cells))])[0]
    text = markdown(document([found]))
    assert "| openvino | OpenVINO 2026.4.1 |" in text
    assert "| onednn | MXNet 1.9.1 |" in text
    assert "| net | 1 | 53 of 54 |" in text
    assert "| NUM\\_STREAMS=1 | libtbb.so.12 |" in text.replace("NUM_STREAMS", "NUM\\_STREAMS").replace("\\\\", "\\")
    assert "0.06 from native, not judged" in text
    # The accuracy is that of MXNet's INT8, though others run INT8, too.
    (row,) = graded(found)
    assert row.row is not None and row.row.contestant == "INT8"
    assert found.challengers.index("NNCF") == 2
    assert "nncf" in text


def test_layers_in_int8_are_shown_where_engines_tell_them() -> None:
    silent = summarize([results(("net",), (1,), (NATIVE, INT8))])[0]
    assert not kernels(silent)
