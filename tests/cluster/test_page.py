"""The page of a cluster's work."""

from __future__ import annotations

import re

import pytest

from quantkit.cluster.page import _spans, cluster_page
from quantkit.cluster.worker import Work

WORK = [
    Work("calibrating (entropy)", 2_000_000, 4000, "tls://10.0.0.1:40001", "node1", 100.0, 102.0),
    Work("calibrating (entropy)", 2_000_000, 4000, "tls://10.0.0.2:40001", "node2", 100.0, 103.0),
    Work("calibrating (entropy)", 0, 4000, "tls://10.0.0.1:40001", "node1", 102.0, 104.0),
    Work("evaluating on <b>/tmp/photos", 0, 1000, "tls://10.0.0.2:40001", "node2", 106.0, 110.0),
]


def rows(html: str) -> list[list[str]]:
    """The texts in the cells of all tables."""
    found = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [
        [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
        for row in found
    ]


@pytest.fixture(scope="module")
def html() -> str:
    return cluster_page(WORK, 2, "2 workers on 2 hosts, avx2", again=3, copies=1)


def test_each_worker_and_each_pass_is_told(html: str) -> None:
    found = rows(html)
    assert ["tls://10.0.0.1:40001", "node1", "2", "4.0", "40.0 %", "2.00", "2.00"] in found
    assert ["tls://10.0.0.2:40001", "node2", "2", "7.0", "70.0 %", "3.50", "4.00"] in found
    assert ["calibrating (entropy)", "3", "4.0", "87.5 %", "1.5"] in found
    facts = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))
    assert facts["shards"] == "4" and facts["busy"] == "55.0 %" and facts["computed again"] == "3"
    assert (facts["copies"], facts["networks and samples handed to engines"]) == ("1", "4.0 MB")


def test_the_picture_has_a_row_for_each_worker_and_a_colour_for_each_pass(html: str) -> None:
    assert html.count("<svg") >= 1 and "10.0.0.1:40001: 2 shards, 4.0 s; tls://10.0.0.2:40001: 2 shards, 7.0 s" in html
    assert len(re.findall(r"calibrating \(entropy\)", html)) >= 2


def test_names_of_data_are_no_markup(html: str) -> None:
    assert "<b>" not in html and "&lt;b&gt;" in html


def test_of_very_many_workers_the_first_are_drawn() -> None:
    many = [Work("counting", 0, 1, f"tcp://10.0.0.1:{port}", "node", 0.0, 1.0) for port in range(40000, 40070)]
    html = cluster_page(many, 70, "many", 0, 0)
    assert "The first 64 of 70 workers." in html
    assert any(row[0] == "tcp://10.0.0.1:40069" for row in rows(html) if row)


def test_of_very_many_shards_the_gaps_are_drawn() -> None:
    halves = [(0.0, 10.0), (20.0, 30.0)]
    shards = [
        Work("counting", 0, 1, "tcp://a", "node", start + number / 200, start + (number + 1) / 200)
        for start, _ in halves
        for number in range(2000)
    ]
    assert len(_spans(shards, 0.0)) == 4000
    assert _spans(shards, 0.06) == [pytest.approx(half) for half in halves]
    assert len(cluster_page(shards, 1, "one", 0, 0)) < 40_000
