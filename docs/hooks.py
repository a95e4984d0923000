"""Hooks of MkDocs: pages made from the program and from files elsewhere, and a check that the site works offline."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cli_reference
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

from quantkit.benchmark.results.result_files import read_results
from quantkit.report.compose import document
from quantkit.report.page.html import page
from quantkit.report.study.summary import summarize

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[1]

# Pages with wide tables have the width of the table of contents, too.
_WIDE = "---\nhide: [toc]\n---\n"

# Full tables do not drown what a search is for either.
_FULL_TABLE = "---\nhide: [toc]\nsearch: {exclude: true}\n---\n"

# Tags by which a page loads scripts, styles, pictures or frames from another host.
_ELSEWHERE = re.compile(r"""<(?:script|img|iframe|link[^>]*rel="stylesheet")[^>]*(?:src|href)="?(?:https?:)?//[^>]*>""")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the command line's reference, full tables and pictures, reports on runs, and two files of the root."""
    files.append(File.generated(config, "reference/cli.md", content=cli_reference.page()))
    for path in (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        text = _WIDE + path.read_text(encoding="utf-8")
        files.append(File.generated(config, f"{path.stem.lower()}.md", content=text))
    for path in (ROOT / "benchmarks" / "results").glob("*.md"):
        text = _FULL_TABLE + path.read_text(encoding="utf-8")
        if (run := path.with_suffix("")).is_dir():
            text += f"\n[The whole report](../reports/{run.name}.html).\n"
            report = page(document(summarize([read_results(run)])))
            files.append(File.generated(config, f"benchmarks/reports/{run.name}.html", content=report))
        files.append(File.generated(config, f"benchmarks/results/{path.name}", content=text))
    for path in (ROOT / "benchmarks" / "results").iterdir():
        if path.suffix in (".jpg", ".svg"):
            files.append(File.generated(config, f"benchmarks/results/{path.name}", content=path.read_bytes()))
    return files


def on_post_page(output: str, page: Any, config: MkDocsConfig) -> str:
    """Refuse a page that would load something from another host.

    Raises:
        PluginError: it does.
    """
    if elsewhere := _ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri} loads {elsewhere[0]}; the site must work offline")
    return output
