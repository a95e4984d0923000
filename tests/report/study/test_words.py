from __future__ import annotations

import pytest

from quantkit.benchmark.results.statistics import Ratio
from quantkit.report.study.words import (
    counted,
    drawn_together,
    factor,
    listed,
    number,
    printable,
    ratio_text,
    shortened,
    span,
)
from quantkit.units import percent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.000123, "0.000123"),
        (0.0123, "0.0123"),
        (1.234, "1.23"),
        (9.996, "10.0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234.5, "1234"),
        (1234567.0, "1234567"),
        (float("inf"), "unbounded"),
    ],
)
def test_numbers_have_three_digits_and_lose_none_before_the_point(value: float, text: str) -> None:
    assert number(value) == text


def test_counts_and_lists_are_english() -> None:
    assert [counted(1, "cell"), counted(2, "cell"), counted(0, "query")] == ["1 cell", "2 cells", "0 queries"]
    assert [listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_ratios_show_their_interval_and_their_doubt() -> None:
    assert ratio_text(Ratio(6.123, 5.98, 6.271)) == "6.12 (5.98 to 6.27)"
    assert ratio_text(Ratio(1.01, 0.98, 1.03)) == "1.01 (0.98 to 1.03), not distinguishable"
    assert ratio_text(Ratio(2.0, 0.0, float("inf"))) == "2.00 (no interval)"
    assert ratio_text(None, "no baseline") == "no baseline"
    assert [factor(9.99), factor(9.996), span(6.101, 7.309), span(2.001, 2.002)] == [
        "9.99",
        "10.0",
        "6.10 to 7.31",
        "2.00",
    ]


def test_only_every_single_one_is_all() -> None:
    assert [percent(1.0), percent(0.9999), percent(0.5)] == ["100.0 %", "99.9 %", "50.0 %"]


def test_texts_alike_are_drawn_together() -> None:
    texts = ("few: 3 in 2", "other", "few: 12 in 2", "few: 9 in 2")
    assert drawn_together(texts, "cell") == ("few: 3 to 12 in 2 (3 cells)", "other (1 cell)")
    assert drawn_together((), "cell") == ()


def test_unseen_characters_are_shown() -> None:
    assert printable("a\u202eb\nc\x1b[31m\ttab\x00") == "a\ufffdb\ufffdc\ufffd[31m  tab\ufffd"
    assert shortened("resnet50_v1", 11) == "resnet50_v1"
    assert shortened("resnet50_v1 ", 8) == "resnet5…"
