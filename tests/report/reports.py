"""Reports of made-up results, and pages taken apart."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser
from typing import Optional

from quantkit.benchmark.results.results import Results
from quantkit.report.compose import document
from quantkit.report.page.document import Document, Section
from quantkit.report.page.table import Table
from quantkit.report.study.summary import Study, summarize

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
    studies = summarize(given, [price] * len(given))
    return document(studies), studies


def section(given: Document, title: str) -> Section:
    return next(each for each in given.parts[0].sections if each.title == title)


def table(given: Document, title: str) -> Table:
    tables = [
        block for part in given.parts for each in part.sections for block in each.blocks if isinstance(block, Table)
    ]
    return next(each for each in tables if each.title == title)
