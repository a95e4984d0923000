"""Latencies of several forms of a network in turns, and their ratios with the spread over rounds.

In each round every form is loaded afresh, in random order, and all take turns, in random order too. A round's ratio is
that of its medians; what is printed is the geometric mean over rounds with a 95 % percentile bootstrap interval over
rounds (Efron 1979).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Optional

import numpy as np
from command_line import ROUNDS, arguments, at_least

Ticks = Mapping[str, list[list[float]]]
"""Readings in ms: by form, round and run."""

_WARM_UP = 3


@dataclass(frozen=True)
class Timing:
    """The readings of one network at one batch size."""

    network: str
    batch: int
    ticks: Ticks


def timing_arguments(description: Optional[str], rounds: int, runs: int) -> argparse.ArgumentParser:
    """A parser with what suites of latencies take: --out, --network, --rounds and --runs, with these defaults."""
    parser = arguments(description)
    parser.add_argument("--rounds", type=ROUNDS, default=rounds)
    parser.add_argument("--runs", type=at_least(1), default=runs, help="of each form in a round")
    return parser


def command_of(script: str, options: argparse.Namespace) -> str:
    """The command that a suite of latencies was given."""
    parts = "".join(f" --network {part}" for part in options.network or ())
    return f"python benchmarks/{script}.py{parts} --rounds {options.rounds} --runs {options.runs}"


def measured(forms: Mapping[str, Callable[[], Callable[[], object]]], rounds: int, runs: int) -> Ticks:
    """Measure all forms; each is a function that loads the network and returns one that runs it once."""
    turns = [_round(forms, runs, seed) for seed in range(rounds)]
    return {form: [turn[form] for turn in turns] for form in forms}


def _round(forms: Mapping[str, Callable[[], Callable[[], object]]], runs: int, seed: int) -> dict[str, list[float]]:
    shuffled = random.Random(seed)
    order = shuffled.sample(list(forms), len(forms))
    loaded = {form: forms[form]() for form in order}
    ticks: dict[str, list[float]] = {form: [] for form in forms}
    for number in range(_WARM_UP + runs):
        for form in shuffled.sample(order, len(order)):
            begin = perf_counter()
            loaded[form]()
            if number >= _WARM_UP:
                ticks[form].append((perf_counter() - begin) * 1e3)
    return ticks


def milliseconds(ticks: Ticks, form: str) -> str:
    """The median over rounds of a form's median latency."""
    return f"{median(median(one) for one in ticks[form]):.3f}"


def ratio(ticks: Ticks, form: str, base: str) -> str:
    """The latency of a form over that of another, with its interval."""
    return mean_ratio([median(one) / median(other) for one, other in zip(ticks[form], ticks[base])])


def mean_ratio(ratios: Sequence[float], digits: int = 3) -> str:
    """The geometric mean of the ratios of rounds, with its 95 % percentile bootstrap interval (Efron 1979)."""
    from scipy.stats import bootstrap

    logarithms = np.log(ratios)
    interval = bootstrap((logarithms,), np.mean, method="percentile", random_state=0).confidence_interval
    low, value, high = np.exp([interval.low, logarithms.mean(), interval.high])
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
