"""The page: one file that needs no other, sound and safe."""

from __future__ import annotations

import re
from dataclasses import replace

from quantkit.report.page.document import Document, Section
from quantkit.report.page.html import page
from quantkit.report.page.table import Table
from quantkit.report.study.words import printable
from tests.report.reports import Page, report, table
from tests.report.showcase import HOSTILE, hostile
from tests.report.synthetic import FUSED, INT8, MKLDNN, NATIVE, results


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


def test_a_large_page_stays_small() -> None:
    names = [f"network{number}" for number in range(8)]
    given = results(names, (1, 2, 4, 8, 16, 32, 64), (NATIVE, MKLDNN, FUSED, INT8))
    assert len(page(report(given, price=3.06)[0]).encode()) < 3_000_000
