"""The tables that are committed are those that the committed data give, byte by byte."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.errors import UserError
from quantkit.files.files import shipped
from quantkit.report.study.summary import summarize
from tests.report.synthetic import INT8, NATIVE, results

RESULTS = shipped("benchmarks") / "results"


def test_what_is_committed_is_what_the_data_give() -> None:
    from tables import ROOT, generated

    pages = generated()
    assert {path.suffix for path in pages} == {".md"}
    # Every page that is there is generated, or looked through for tables.
    written = {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")}
    assert set(pages) == {*written, *(path.resolve() for path in RESULTS.glob("*.md"))}
    for path, text in pages.items():
        assert path.read_bytes() == text.encode(), f"{path.name} is stale; `make tables` writes it anew"


@pytest.mark.parametrize(
    "name",
    ["accuracy", "ablation", "calibration-data", "mixed-precision", "onnx-parity", "recovered-speed"],
)
def test_other_figures_give_another_page(name: str) -> None:
    from tables import PAGES, data

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        if isinstance(value, list):
            return [changed(each) for each in value]
        return value * 1.01 if isinstance(value, float) else value

    before = data(name)
    key = "cells" if "cells" in before else "rows"
    after = {**before, key: [changed(before[key][0]) | {"batch": 7}, *before[key][1:]]}
    if key == "cells":
        ticks = after[key][0]["ticks"]
        after[key][0]["ticks"] = {form: [[2.0 * one for one in turn] for turn in ticks[form]] for form in ticks}
    one, other = (PAGES[name](each).splitlines() for each in (before, after))
    assert len(one) == len(other)
    assert one != other


def test_every_table_is_on_a_page_and_the_readme_has_three() -> None:
    from page_tables import names_in
    from tables import ROOT, WRITTEN

    assert names_in((ROOT / "README.md").read_text()) == ["summary", "speed", "lstm-summary"]
    placed = {name for path in WRITTEN for name in names_in(path.read_text())}
    assert placed == {
        "ablation", "accuracy", "cluster-efficiency", "cluster-scale", "files", "lstm-speed", "lstm-summary",
        "mixed-precision", "onnx-files", "parity", "peers", "plain-loops", "published", "reading", "recovered-speed",
        "recurrent", "runs", "speed", "stock-ahead", "summary", "tasks", "without-vnni", "finetuning", "resuming",
        "quantization-aware", "training-scaling", "horovod-cycle", "kvstore", "input-bound", "training-score",
        "training-feed",
    }  # fmt: skip


def test_stock_int8_is_listed_only_where_it_is_faster() -> None:
    from speed_tables import stock_ahead_lines

    slow, fast = (replace(INT8, name=name) for name in ("stock INT8", "mkl-1.5 stock INT8"))
    speeds = {"native": 1.0, "INT8": 20.0, slow.name: 10.0, fast.name: 30.0}
    (found,) = summarize([results(("a", "b"), (8, 16), (NATIVE, slow, fast, INT8), speeds)])
    rows = [line.strip("| ").split(" | ") for line in stock_ahead_lines(found) if line.startswith(("| a", "| b"))]
    assert [row[:3] for row in rows] == [[name, batch, fast.name] for name in "ab" for batch in ("8", "16")]
    assert [float(row[3].split(" [")[0]) for row in rows] == pytest.approx([1.5] * 4, rel=0.1)
    (none,) = summarize([results(("a",), (8,), (NATIVE, slow, INT8), speeds)])
    assert list(stock_ahead_lines(none)) == ["- none"]


@pytest.mark.parametrize(("network", "batch"), [("lstm-8x1024", 1), ("lstm-8x1024-n32", 32)])
def test_lstm_layers_have_a_row_for_each_shape_and_batch_size(network: str, batch: int) -> None:
    from speed_tables import lstm_lines, lstm_summary_lines

    openvino, fp32, old = (replace(INT8, name=name) for name in ("OpenVINO INT8", "OpenVINO", "mkl-1.5"))
    speeds = {"native": 1.0, "INT8": 4.0, openvino.name: 6.0, fp32.name: 3.0, old.name: 2.5}
    (found,) = summarize([results((network,), (batch,), (NATIVE, INT8, openvino, fp32, old), speeds)])
    (row,) = (line.strip("| ").split(" | ") for line in lstm_lines(found) if line.startswith("| 8"))
    assert row[:2] == ["8 \u00d7 1024", str(batch)]
    assert [each.split(" [")[0] for each in (row[5], row[6], row[8])] == ["no result"] * 3
    assert [float(row[place].split(" [")[0]) for place in (3, 4, 7)] == pytest.approx([2.5, 4, 6], rel=0.1)
    if batch == 1:
        (sentence,) = lstm_summary_lines(found, network)
        factors = [float(each) for each in re.findall(r"([\d.]+) \[", sentence)]
        assert factors == pytest.approx([4, 1.6, 2], rel=0.1)


def test_onnx_files_stand_beside_those_of_the_engines_own_quantizer() -> None:
    from speed_tables import onnx_file_lines

    speeds = {
        "native": 10.0,
        "ONNX Runtime PTQ": 8.0,
        "OpenVINO NNCF": 4.0,
        "OpenVINO INT8": 6.0,
        "ONNX Runtime INT8": 2.0,
    }
    contestants = [replace(INT8, name=name) for name in speeds if name != NATIVE.name]
    (found,) = summarize([results(("net",), (16,), (NATIVE, *contestants), speeds)])
    (row,) = (line.strip("| ").split(" | ") for line in onnx_file_lines(found) if line.startswith("| net "))
    throughput = {each.contestant: each.throughput for each in found.rows}
    expected = [throughput["ONNX Runtime INT8"], 0.25, throughput["OpenVINO INT8"], 1.5]
    assert row[:2] == ["net", "16"]
    assert [float(each.split(" [")[0]) for each in row[2:]] == pytest.approx(expected, rel=0.1)
    (fewer,) = summarize([results(("net",), (16,), (NATIVE, contestants[0]), speeds)])
    assert [line for line in onnx_file_lines(fewer) if line.startswith("| net ")] == [
        "| net | 16" + " | no result" * 4 + " |"
    ]


def test_a_suite_that_has_not_been_run_has_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    import tables

    monkeypatch.setattr(tables, "PAGES", {"soak": lambda document: "soaked", "not-run": lambda document: "none"})
    monkeypatch.setattr(tables, "WRITTEN", ())
    monkeypatch.setattr(tables.run_pages, "runs", lambda results: [])
    assert tables.generated() == {tables.RESULTS / "soak.md": "soaked"}


def test_a_table_that_nobody_generates_is_an_error() -> None:
    from page_tables import filled
    from tables import data

    with pytest.raises(UserError, match="has the generated block other; known are"):
        filled("<!-- generated: other -->\n<!-- end -->", RESULTS, data)


def test_a_block_is_replaced_whole() -> None:
    from page_tables import filled
    from tables import ROOT, data

    page = (ROOT / "docs" / "pages" / "benchmarks" / "accuracy.md").read_text()
    spoilt = re.sub(r"(<!-- generated: parity -->\n).*?(<!-- end -->)", r"\1| 99.99 |\n\2", page, flags=re.DOTALL)
    assert spoilt != page
    assert filled(spoilt, RESULTS, data) == page


def test_pages_tell_the_commit(tmp_path: Path) -> None:
    from command_line import described, write_results

    def render(document: Any) -> str:
        return described(document)

    write_results(tmp_path / "out", "python x.py", {"cpu": "y"}, {"rows": [str(tmp_path / "z")]}, render)
    document = json.loads((tmp_path / "out.json").read_text())
    assert set(document["revision"]) == {"version", "commit", "dirty"}
    assert str(tmp_path) not in (tmp_path / "out.json").read_text()
    assert (tmp_path / "out.md").read_text() == described(document)
    assert document["revision"]["commit"][:12] in described(document)
    del document["revision"]
    assert described(document).endswith("commit not recorded")


def test_results_hold_no_folders_of_anybody() -> None:
    from quantkit.host.placeholders import hidden

    paths = sorted(RESULTS.rglob("*.json"))
    assert len(paths) > 300
    for path in paths:
        text = path.read_text()
        assert not re.search(r'"(/(?!usr/|lib|proc|sys)[^"]*)"', text), path
        for found in re.findall(r'"(?:python|library|command)": ?"([^"]*)"', text):
            assert hidden(found) == found, path
            assert not found.startswith("QUANTKIT_HOME"), path
