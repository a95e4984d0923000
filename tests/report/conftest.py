from __future__ import annotations

import pytest

from quantkit.report.page.document import Document
from quantkit.report.page.html import page
from tests.report.reports import Page, report
from tests.report.showcase import complete


@pytest.fixture(scope="session")
def full() -> tuple[Document, Page, str]:
    """A report of everything, its page taken apart, and the page's text."""
    given = report(complete(), price=3.06)[0]
    text = page(given)
    return given, Page(text), text
