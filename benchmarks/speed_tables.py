"""The tables of speed on pages that people write, from the folders of runs and the plain loops beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from command_line import table

from quantkit.benchmark.results.statistics import Ratio
from quantkit.host.revision import Revision, described
from quantkit.report.study.summary import Row, Study
from quantkit.report.study.words import LEGEND, marked, number


def speedup_lines(found: Study, batch: int) -> Iterator[str]:
    """Native throughput and the ratios to it, for one batch size; then what marks mean."""
    columns = [
        "network", "native, images/s",
        *(f"{name}, times native" for name in found.challengers), "INT8, images/s",
    ]  # fmt: skip
    yield from _marked_table(columns, [
        [
            network, _throughput(found, network, batch, "native"),
            *(_times(found, network, batch, name) for name in found.challengers),
            _throughput(found, network, batch, "INT8"),
        ]
        for network in dict.fromkeys(row.network for row in found.rows)
    ])  # fmt: skip


def _marked_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from table(columns)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    yield from lines
    if any(LEGEND[0] in line for line in lines):
        yield from ("", LEGEND)


def _row(found: Study, network: str, batch: int, name: str) -> Row | None:
    return next((row for row in found.rows if row.key == (network, batch, name)), None)


def _throughput(found: Study, network: str, batch: int, name: str) -> str:
    row = _row(found, network, batch, name)
    return "no result" if row is None else marked(number(row.throughput), found.doubtful(*row.key))


def _times(found: Study, network: str, batch: int, name: str) -> str:
    row = _row(found, network, batch, name)
    if row is None or row.speedup is None:
        return "no result"
    return marked(_interval(row.speedup), found.doubtful(network, batch, name, found.run.baseline))


def _interval(ratio: Ratio) -> str:
    return f"{number(ratio.value)} [{number(ratio.low)}, {number(ratio.high)}]"


def _commit(found: Mapping[str, Any]) -> str:
    revision = found.get("revision")
    return described(Revision(**revision) if revision else None)


def plain_loop_lines(results: Path) -> Iterator[str]:
    """The harness beside a plain timing loop, in turns."""
    for variant in ("int8", "fp32"):
        found = json.loads((results / f"plain-loop-{variant}.json").read_text())
        rounds = len(found["harness_rounds_ms"])
        low, high = found["interval"]
        command = found["command"].partition(" --out ")[0]
        yield (
            f"- `python {command}`, commit {_commit(found)}: {rounds} rounds in turns, "
            f"medians of {found['harness_ms']:.2f} ms (harness) and {found['plain_ms']:.2f} ms (plain loop), ratio "
            f"{found['ratio']:.3f} [{low:.3f}, {high:.3f}]"
        )
