"""The page of a tuning: what was chosen, what it brings, what was tried, and how to use it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from quantkit.deployment.deployment_file import TunedHost
from quantkit.deployment.tuning import pareto
from quantkit.deployment.tuning.outcome import MEGABYTE
from quantkit.deployment.tuning.snippets import kubernetes_lines, python_lines, shell_lines, systemd_lines
from quantkit.deployment.tuning.tuned import Finalist, Trial, Tuned
from quantkit.report.page.document import Block, Document, Output, Part, Picture, Section, Text
from quantkit.report.page.table import Table
from quantkit.report.study.headline import Headline
from quantkit.report.study.words import TIMES, counted, factor, number, ratio_text


def document(tuned: Tuned, host: TunedHost, folder: Path, command: str) -> Document:
    """The page; ``folder`` is where it is written, beside the deployment."""
    sections = (
        Section("Throughput against latency", (Picture(pareto.figure(tuned), "pareto"),)),
        Section("The last comparison", (_finalists(tuned),)),
        Section("What settings brought", (_settings(tuned),)),
        *([Section("Decoding images", (_decoding(tuned),))] if tuned.decoded or tuned.undecoded else []),
        Section("All that was tried", tuple(_trials(tuned))),
        Section("Use it", _uses(tuned.winner, host, folder)),
    )
    part = Part("Tuning", (verdict(tuned),), (), sections, _headline(tuned, host, command))
    return Document(
        f"Tuning {tuned.winner.contestant.bundle.manifest.name}",
        (part,),
        "Made by quantkit from measurements on this host. Ratios above 1 mean that the chosen deployment is better.",
    )


def verdict(tuned: Tuned) -> str:
    """What was chosen, and how it compares with the default."""
    usual, winner = tuned.finalists[0], tuned.winner
    name = winner.contestant.name
    if winner is usual:
        return f"The default stays: {name}. Nothing that was tried is better beyond doubt."
    if not tuned.keeps(usual):
        return f"{name}. The default, {usual.contestant.name}, breaks the bounds of the goal."
    return f"{name}: {ratio_text(tuned.over(usual))} {tuned.goal.times} the default, {usual.contestant.name}."


def _headline(tuned: Tuned, host: TunedHost, command: str) -> Headline:
    winner, usual = tuned.winner, tuned.finalists[0]
    figures = [
        (f"{number(winner.rate)}/s", f"images with {winner.contestant.name}"),
        (f"{number(winner.p99)} ms", f"p99 of requests, {winner.points[0].load}"),
    ]
    if tuned.goal.rate is not None:
        figures = [(f"{number(winner.p99)} ms", f"p99 with {winner.contestant.name}, {winner.points[0].load}")]
    if winner is not usual:
        figures.append((f"{factor(tuned.over(usual).value)}{TIMES}", f"the default, {usual.contestant.name}"))
    quota = "" if host.cpu_quota is None else f", quota {host.cpu_quota:g}"
    goal = ", ".join(f"{name} {value}" for name, value in tuned.goal.facts.items())
    facts = (("goal", goal), ("machine", f"{host.cpu}, {counted(host.usable_cores, 'core')}{quota}"))
    return Headline(tuple(figures), (*facts, *([("command", command)] if command else [])))


def _finalists(tuned: Tuned) -> Table:
    rows = [
        (
            each.contestant.name + (" (chosen)" if each is tuned.winner else ""),
            str(each.points[0].load),
            number(each.rate),
            number(each.p50),
            number(each.p99),
            number(each.memory / MEGABYTE),
            "" if each is tuned.winner else ratio_text(tuned.over(each)),
        )
        for each in tuned.finalists
    ]
    return Table(
        "In turns, in random order",
        ("deployment", "load", "images/s", "p50, ms", "p99, ms", "memory, MB", "the chosen is times as good"),
        tuple(rows),
        frozenset({2, 3, 4, 5}),
        f"{counted(len(tuned.winner.points), 'round')}. In parentheses the 95 % interval of the ratio of the same "
        "rounds. Each runs under the load that suits it best, within the bounds of the goal.",
    )


def _settings(tuned: Tuned) -> Block:
    if not tuned.settings:
        return Text("No setting was changed: the best runs in one process, or the time was over.")
    rows = [(each.name, ratio_text(each.ratio), "yes" if each.kept else "no") for each in tuned.settings]
    return Table(
        "One setting changed at a time",
        ("setting", "times as good", "kept"),
        tuple(rows),
        note="Compared with the best until then, in the same rounds.",
    )


def _decoding(tuned: Tuned) -> Block:
    if tuned.undecoded:
        return Text(f"The threads that decode could not be compared: {tuned.undecoded}")
    return Table(
        "The chosen deployment with image files",
        DECODING,
        tuple(decoding_rows(tuned)),
        frozenset({0, 1}),
        "Files are decoded and scaled while the network runs. The usual number, the first, stays unless another is "
        "better beyond doubt.",
    )


DECODING = ("threads that decode", "images/s", "times as many as with the usual number", "chosen")
"""The columns of ``decoding_rows``."""


def decoding_rows(tuned: Tuned) -> Iterator[tuple[str, str, str, str]]:
    """Of each number of threads that decode: the number, images per second, over the usual one, and whether it won."""
    for each in tuned.decoded:
        usual = tuned.decoded[0]
        ratio = "" if each is usual else ratio_text(tuned.faster(each))
        chosen = each.workers == (tuned.workers or usual.workers)
        yield str(each.workers), number(each.rate), ratio, "yes" if chosen else "no"


def _trials(tuned: Tuned) -> Sequence[Table]:
    rows = [row for trial in tuned.trials for row in _rows(trial)]
    columns = ("deployment", "load", "images/s", "p50, ms", "p99, ms", "memory, MB")
    failed = tuple((trial.contestant.name, trial.problem) for trial in tuned.trials if trial.problem)
    tables = [Table("Measured", columns, tuple(rows), frozenset({2, 3, 4, 5}))]
    return [*tables, *([Table("Left out", ("deployment", "reason"), failed)] if failed else [])]


def _rows(trial: Trial) -> list[tuple[str, ...]]:
    return [
        (
            trial.contestant.name,
            str(point.load),
            number(point.rate),
            number(point.p50),
            number(point.p99),
            number(trial.memory / MEGABYTE),
        )
        for point in trial.points
    ]


def _uses(winner: Finalist, host: TunedHost, folder: Path) -> tuple[Block, ...]:
    shell = shell_lines(winner)
    blocks: list[Block] = [Output("In Python", python_lines(winner.contestant.bundle.directory, folder))]
    if shell:
        blocks.append(Output("Without quantkit's instances: one process each, started so", shell))
    blocks.append(Output("As a systemd unit", systemd_lines(winner, folder)))
    blocks.append(Output("In Kubernetes", kubernetes_lines(winner, host.usable_cores)))
    return tuple(blocks)
