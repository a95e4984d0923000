"""The pages of the benchmark's runs: quantkit's report on each without figures and single readings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from command_line import table

from quantkit.benchmark.results.result_files import read_results
from quantkit.host.revision import described
from quantkit.report.compose import document
from quantkit.report.page.document import Document, Part, Picture, Section
from quantkit.report.page.markdown import markdown
from quantkit.report.study.summary import Study, summarize
from quantkit.report.study.words import counted

_LEFT_OUT = ("All measurements",)


def runs(results: Path) -> list[Path]:
    """The folders of runs."""
    return sorted(path.parent for path in results.glob("*/run.json"))


def study(run: Path) -> Study:
    """A run, evaluated."""
    return summarize([read_results(run)])[0]


def overview(results: Path) -> Iterator[str]:
    """A row for each run, with a link to its page."""
    yield from table(["run", "measured", "machine", "minutes", "commit"])
    for folder in runs(results):
        run = study(folder).run
        cells = [
            f"[{run.title}](results/{folder.name}.md)", f"{datetime.fromisoformat(run.created):%d %B %Y}",
            f"{run.host.get('cpu', 'not recorded')}, {run.host.get('usable_cores', '?')} cores", f"{run.minutes:.0f}",
            described(run.revision),
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def page(run: Path) -> str:
    """The page of a run."""
    whole = document([study(run)])
    title, tables = markdown(replace(whole, parts=tuple(map(_without_figures, whole.parts)))).split("\n", 1)
    return f"{title}\n\n{_where(run.name, whole)}{tables}"


def _without_figures(part: Part) -> Part:
    sections = [
        Section(each.title, tuple(block for block in each.blocks if not isinstance(block, Picture)))
        for each in part.sections
        if each.title not in _LEFT_OUT
    ]
    return replace(part, sections=tuple(each for each in sections if each.blocks))


def _where(name: str, whole: Document) -> str:
    return (
        f"Raw clock readings, hashes, thread settings and proofs of placement are in `benchmarks/results/{name}`; "
        f"`quantkit report benchmarks/results/{name}` makes the whole report, with "
        f"{counted(len(whole.pictures), 'figure')} and the latencies of each cell.\n"
    )
