"""The report in Markdown."""

from __future__ import annotations

import re

from quantkit.report.page.markdown import escaped, markdown
from tests.report.reports import report
from tests.report.showcase import complete, hostile


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
