"""The page of the benchmark's results, from the folders of runs beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from command_line import table

from quantkit.benchmark.results.result_files import read_results
from quantkit.benchmark.results.statistics import Ratio
from quantkit.host.revision import Revision, described
from quantkit.report.study.summary import Row, Study, summarize
from quantkit.report.study.words import LEGEND, counted, marked, number


def study(results: Path, name: str) -> Study:
    """A run of the results, evaluated."""
    return summarize([read_results(results / name)])[0]


def page(results: Path) -> str:
    """The page of all runs."""
    speedup, rnn, score, pair = (study(results, name) for name in ("int8-speedup", "rnn", "score", "two-instances"))
    lines = [
        *("# Speed", "", *_host(speedup), ""),
        *("## Networks across builds", "", _ran(speedup), _builds(speedup)),
        "One instance on each node. Times the throughput of native:",
        *("", *speedup_lines(speedup), ""),
        *(*_published(speedup), ""),
        *("## LSTM", "", _ran(rnn), _builds(rnn), "Sequences of 50 steps. Times the speed of native:"),
        *("", *_lstm_lines(rnn), ""),
        *("## Images per second of six networks", "", _ran(score), _builds(score)),
        *("Stock MXNet only, FP32. Times the throughput of native:", "", *_score_lines(score), ""),
        *("## The harness against a plain timing loop", "", *_plain_loops(results), ""),
        *("## Two instances of one core, and one of two", "", _ran(pair), "", *_pair_lines(pair)),
    ]
    return "\n".join(lines) + "\n"


def speedup_lines(found: Study, batch: int | None = None) -> Iterator[str]:
    """Native throughput and the ratios to it, for one batch size or for all; then what marks mean."""
    columns = [
        "network", *(() if batch else ("batch",)), "native, images/s",
        *(f"{name}, times native" for name in found.challengers), "INT8, images/s",
    ]  # fmt: skip
    yield from _marked_table(columns, [
        [
            network, *(() if batch else (str(size),)), _throughput(found, network, size, "native"),
            *(_times(found, network, size, name) for name in found.challengers),
            _throughput(found, network, size, "INT8"),
        ]
        for network, size in _places(found)
        if batch in (None, size)
    ])  # fmt: skip


def _lstm_lines(found: Study) -> Iterator[str]:
    names = found.challengers
    yield from _marked_table(["layers x units", "batch", "native, ms", *(f"{name}, times" for name in names)], [
        [network, str(batch), _milliseconds(found, network, batch), *(_times(found, network, batch, n) for n in names)]
        for network, batch in _places(found)
    ])  # fmt: skip


def _score_lines(found: Study) -> Iterator[str]:
    names = found.challengers
    columns = ["network", "batch", "native, images/s"]
    columns += [head for name in names for head in (f"{name}, images/s", "times native")]
    yield from _marked_table(columns, [
        [
            network, str(batch), _throughput(found, network, batch, "native"),
            *(
                text
                for name in names
                for text in (_throughput(found, network, batch, name), _times(found, network, batch, name))
            ),
        ]
        for network, batch in _places(found)
    ])  # fmt: skip


def _pair_lines(found: Study) -> Iterator[str]:
    one, two = (each.name for each in found.run.contestants)
    yield from _marked_table(["batch", f"{one}, images/s", f"{two}, images/s", "ratio"], [
        [
            str(batch), _throughput(found, network, batch, one), _throughput(found, network, batch, two),
            _times(found, network, batch, two),
        ]
        for network, batch in _places(found)
    ])  # fmt: skip


def _marked_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from table(columns)
    lines = [f"| {' | '.join(row)} |" for row in rows]
    yield from lines
    if any(LEGEND[0] in line for line in lines):
        yield from ("", LEGEND)


def _places(found: Study) -> list[tuple[str, int]]:
    return list(dict.fromkeys((row.network, row.batch) for row in found.rows))


def _row(found: Study, network: str, batch: int, name: str) -> Row | None:
    return next((row for row in found.rows if row.key == (network, batch, name)), None)


def _throughput(found: Study, network: str, batch: int, name: str) -> str:
    row = _row(found, network, batch, name)
    return "no result" if row is None else marked(number(row.throughput), found.doubtful(*row.key))


def _milliseconds(found: Study, network: str, batch: int) -> str:
    row = _row(found, network, batch, found.run.baseline)
    return "no result" if row is None else marked(number(row.mean_latency), found.doubtful(*row.key))


def _times(found: Study, network: str, batch: int, name: str) -> str:
    row = _row(found, network, batch, name)
    if row is None or row.speedup is None:
        return "no result"
    return marked(_interval(row.speedup), found.doubtful(network, batch, name, found.run.baseline))


def _interval(ratio: Ratio) -> str:
    return f"{number(ratio.value)} [{number(ratio.low)}, {number(ratio.high)}]"


def _host(found: Study) -> Iterator[str]:
    host, run = found.run.host, found.run
    virtual = " of a virtual machine" if host["virtual"] else ""
    yield (
        f"Host: {host['cpu']} ({', '.join(host['isa'])}), {counted(host['cores'], 'core')}{virtual}, "
        f"{counted(host['nodes'], 'memory node')}, {host['memory_gib']} GiB, Linux {host['kernel'].partition('-')[0]}; "
        f"quantkit {run.quantkit}, {datetime.fromisoformat(run.created):%d %B %Y}. "
        "Weights are random. In brackets: 95 % intervals. In each folder are raw clock readings, hashes, thread "
        "settings and proofs of placement; `quantkit report benchmarks/results/int8-speedup` makes the page."
    )


def _ran(found: Study) -> str:
    run = found.run
    commit = described(run.revision)
    keys = {key for key, _ in found.warned}
    left_out = [f"{each.network} at batch size {each.batch}, {each.contestant}" for each in found.left_out]
    return (
        f"`{run.command.partition(' --out ')[0]}`: took {run.minutes:.1f} minutes, {counted(len(found.rows), 'cell')}, "
        f"{len(keys)} of them with warnings, commit {commit}; left out: {'; '.join(left_out) or 'nothing'}."
    )


def _builds(found: Study) -> str:
    run = found.run
    of = {build.name: f"{build.engine} {build.version}" for build in run.builds}
    told = [f"{each.name} is {each.variant} on {each.build} ({of[each.build]})" for each in run.contestants]
    threads = {place.threads for cell in found.cells.values() for place in cell.placements}
    return f"{'; '.join(told)}; {' or '.join(map(str, sorted(threads)))} threads."


def _published(found: Study) -> Iterator[str]:
    yield f"Published: {found.run.source}"
    for each in found.run.published:
        if each.metric == "speedup" and each.network == "resnet50_v1":
            yield f"- {each.network}, batch size {each.batch}, {each.contestant}, {each.scenario}: {each.value:g}"


def _commit(found: Mapping[str, Any]) -> str:
    revision = found.get("revision")
    return described(Revision(**revision) if revision else None)


def _plain_loops(results: Path) -> Iterator[str]:
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
