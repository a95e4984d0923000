"""The suite of decoding beside networks: its rows, and what it measures."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quantkit.data.samples import Samples
from quantkit.data.sources import load_data
from quantkit.evaluation.feed import Feed
from quantkit.evaluation.network import Network
from quantkit.evaluation.stream_rates import Images, Rate

FEED = Feed(
    Images(20, 256, 2.0, 0.5), 10, 16, 2, 90.0, None,
    Rate((50.0, 40.0, 60.0)), Rate((100.0, 80.0, 90.0)), Rate((200.0, 220.0, 210.0)), Rate((85.0, 75.0, 80.0)), 0.6,
)  # fmt: skip


def line(**changes: Any) -> str:
    from feeding import Row, page

    row = replace(Row("net", "builtin", FEED, FEED.verdict, ()), **changes)
    return page({"command": "python x", "host": {"cpu": "y"}, "rows": [asdict(row)]}).splitlines()[-1]


def test_a_row_has_rates_with_the_slowest_and_fastest_round() -> None:
    rates = "50 (40 to 60) | 90 (80 to 100) | 210 (200 to 220) | 80 (75 to 85)"
    assert line() == f"| net | builtin | 16 | {rates} | 60 | starved |"


def test_a_disturbed_measurement_is_marked() -> None:
    assert line(warnings=("others kept 1 core busy",)).endswith("| starved (disturbed) |")


def test_the_int8_form_reads_the_images_asked_for(int8_engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import feeding

    def measure(network: Network, form: str, samples: Samples, batch: int, seconds: float) -> SimpleNamespace:
        assert any(node.attrs.get("quantized") == "true" for node in network.graph.nodes)
        assert (network.name, form, batch, seconds) == ("cifar_resnet20_v1", "quantized", 3, 7.5)
        return SimpleNamespace(data=samples.name, feed=FEED, warnings=("others kept 1 core busy",))

    monkeypatch.setattr(feeding, "measure_feeding", measure)
    row = feeding.measured("cifar_resnet20_v1", "builtin", 3, 7.5)
    assert row == feeding.Row("cifar_resnet20_v1", row.data, FEED, "starved", ("others kept 1 core busy",))
    assert row.data == load_data("builtin").name


def test_the_command_line_says_what_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import feeding

    asked: list[tuple[str, str, int, float]] = []

    def measured(*options: Any) -> feeding.Row:
        asked.append(options)
        return feeding.Row(options[0], options[1], FEED, "starved", ())

    monkeypatch.setattr(feeding, "measured", measured)
    chosen = ["--network", "mobilenet", "--data", "photos", "--batch", "4", "--seconds", "2.5"]
    monkeypatch.setattr(sys, "argv", ["feeding.py", *chosen, "--out", str(tmp_path / "x")])
    feeding.main()
    assert asked == [(name, "photos", 4, 2.5) for name in ("mobilenet1.0", "mobilenet0.25")]
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["command"] == " ".join(["python benchmarks/feeding.py", *chosen])
    assert (tmp_path / "x.md").read_text() == feeding.page(document)


def test_the_int8_form_is_measured(int8_engine: None) -> None:
    from feeding import measured

    row = measured("cifar_resnet20_v1", "builtin", 2, 0.5)
    assert (row.network, row.feed.batch, row.verdict) == ("cifar_resnet20_v1", 2, row.feed.verdict)
    assert len(row.feed.network.rounds) == len(row.feed.together.rounds) > 1
