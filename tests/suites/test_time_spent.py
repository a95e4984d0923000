"""The suite of what time is spent on: its rows, and that the forms of a network are what they are called."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Optional

import pytest

from quantkit.diagnosis.profile.profile import Spent
from quantkit.ir.graph import Graph
from quantkit.models.model import Model

SPENT = Spent(
    int8=4, floating=2, conversions=1, reorders=0.5, copies=0.25, around=0.75, own=0.5, others=0.5, between=0.5
)


@pytest.mark.parametrize(("of_peak", "last"), [(0.5, "50"), (None, "")])
def test_a_row_has_the_share_of_each_class(of_peak: Optional[float], last: str) -> None:
    from time_spent import Row, page

    row = Row("net", "INT8", 16, 8.125, SPENT, of_peak)
    shown = page({"command": "python x", "host": {"cpu": "y"}, "rows": [asdict(row)]}).splitlines()[-1]
    assert shown == f"| net | INT8 | 16 | 8.12 | 40.0 | 20.0 | 10.0 | 5.0 | 2.5 | 7.5 | 5.0 | 5.0 | 5.0 | {last} |"


def test_the_page_says_what_its_columns_mean() -> None:
    from time_spent import Row, page

    text = page({"command": "python x", "host": {}, "rows": [asdict(Row("net", "INT8", 1, 1.0, SPENT, None))]})
    note, head = (text.lower().splitlines()[place] for place in (2, 4))
    for column in ("around kernels", "mxnet's own operators", "no layer's", "scheduling, waiting", "of peak"):
        assert f"*{column}*" in note
        assert f"| {column}, %" in head


def test_each_form_is_profiled_at_each_batch_size(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import time_spent

    profiled: list[tuple[Graph, int]] = []

    def profile(model: Model, batch: int) -> SimpleNamespace:
        profiled.append((model.graph, batch))
        return SimpleNamespace(profile=SimpleNamespace(latency=float(len(profiled)), spent=SPENT, of_peak=None))

    monkeypatch.setattr(time_spent, "profile_network", profile)
    rows = list(time_spent.rows("cifar_resnet20_v1", [1, 3]))
    assert [(row.form, row.batch, row.latency) for row in rows] == [
        ("as loaded", 1, 1), ("as loaded", 3, 2), ("fused", 1, 3), ("fused", 3, 4), ("INT8", 1, 5), ("INT8", 3, 6),
    ]  # fmt: skip
    assert [batch for _, batch in profiled] == [1, 3] * 3
    normalized = [any(node.op == "BatchNorm" for node in graph.nodes) for graph, _ in profiled]
    assert normalized == [True, True, False, False, False, False]
    quantized = [any(node.attrs.get("quantized") == "true" for node in graph.nodes) for graph, _ in profiled]
    assert quantized == [False, False, False, False, True, True]


def test_the_command_line_chooses_networks_and_batch_sizes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import time_spent

    def rows(name: str, batches: list[int]) -> list[time_spent.Row]:
        return [time_spent.Row(name, "INT8", batch, 1.0, SPENT, None) for batch in batches]

    monkeypatch.setattr(time_spent, "rows", rows)
    chosen = ["--network", "mobilenet", "--network", "squeeze", "--batch", "4", "--batch", "2"]
    monkeypatch.setattr(sys, "argv", ["time_spent.py", *chosen, "--out", str(tmp_path / "x")])
    time_spent.main()
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["command"] == " ".join(["python benchmarks/time_spent.py", *chosen])
    names = ("mobilenet1.0", "mobilenetv2_1.0", "squeezenet1.0")
    assert [(row["network"], row["batch"]) for row in document["rows"]] == [(name, n) for name in names for n in (4, 2)]
    assert (tmp_path / "x.md").read_text() == time_spent.page(document)


@pytest.mark.long
def test_only_the_int8_form_has_int8_kernels(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import time_spent

    monkeypatch.setattr(time_spent, "profile_network", partial(time_spent.profile_network, runs=3))
    found = {row.form: row for row in time_spent.rows("cifar_resnet20_v1", [2])}
    assert list(found) == ["as loaded", "fused", "INT8"]
    assert [row.spent.int8 > 0 for row in found.values()] == [False, False, True]
    assert all(row.batch == 2 and row.spent.floating > 0 for row in found.values())
