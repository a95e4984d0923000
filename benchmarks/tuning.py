"""What `quantkit tune` gains over what engines do by themselves, without a bound and under one on the latency.

    python benchmarks/tuning.py --out benchmarks/results/tuning

The networks are those of engines.toml in INT8, with random weights, which are as fast as trained ones, for MXNet and as
ONNX files. Each is tuned twice: for images per second alone, and with a bound on the p99 of single images under load,
three times the median latency of one image alone in the default deployment. Compared are the last rounds of each
search, in which the winner, the default and the engines by themselves take turns in random order: MXNet and ONNX
Runtime in their default sessions, OpenVINO in its own and with its hints for latency and throughput; each runs under
the load that suits it best within the bound. Ratios are geometric means over rounds, with Student's 95 % interval.
OUT.json has every round. Nothing else may run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Optional

from command_line import Document, arguments, at_least, described, host_facts, run, table, write_results

import quantkit
from quantkit.benchmark.results.statistics import Ratio, geometric_mean
from quantkit.bundle import Bundle, read_bundle
from quantkit.bundle.quantized_model import FORMATS
from quantkit.deployment.tuning.candidates import default
from quantkit.deployment.tuning.contestant import Running
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import Load
from quantkit.deployment.tuning.search import tune
from quantkit.deployment.tuning.tuned import Tuned
from quantkit.errors import QuantkitError
from quantkit.files.folders import scratch_folder

# The bound, over the latency of one image alone; and how that is measured.
_TIMES, _SECONDS = 3.0, 3.0

_OWN = ("default", "LATENCY", "THROUGHPUT")
_COLUMNS = ("network", "p99 at most, ms", "winner", "images/s", "p99, ms", "over", "ratio", "its p99, ms")
_MEANS = ("over", "cases", "geometric mean", "smallest")


@dataclass(frozen=True)
class Other:
    """Another deployment in the last rounds of a search.

    Attributes:
        name: in words.
        mode: of the engine by itself: ``default``, or a hint; None: it is quantkit's, its default or the best one.
        rate: in images per second.
        p99: in ms.
        ratio: how many times as fast the winner is, with the ends of the interval.
    """

    name: str
    mode: Optional[str]
    rate: float
    p99: float
    ratio: tuple[float, float, float]


@dataclass(frozen=True)
class Row:
    """A network under a goal: the bound on p99 in ms, what won, and the others; or why there is no winner."""

    network: str
    bound: Optional[float]
    winner: str
    rate: float
    p99: float
    rounds: int
    others: list[Other]
    problem: str = ""


def main() -> None:
    """Tune every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=at_least(1), default=3, help="of each search")
    options = parser.parse_args()
    suite = tomllib.loads(Path(__file__).with_name("engines.toml").read_text())
    rows: list[Row] = []
    for name in [network["model"] for network in suite["network"]]:
        if options.network and not any(part in name for part in options.network):
            continue
        with scratch_folder() as scratch:
            bundle = _bundle(name, scratch / "net")
            for bound in (None, _TIMES * _alone(bundle)):
                rows.append(_tuned(name, bound, bundle, options.minutes))
                print("\n".join(_lines(rows[-1])), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        command = f"python benchmarks/tuning.py{parts} --minutes {options.minutes}"
        write_results(options.out, command, host_facts(), {"rows": [asdict(row) for row in rows]}, page)


def _bundle(name: str, folder: Path) -> Bundle:
    model = quantkit.load_model(name, weights="random", quiet=True)
    config = quantkit.QuantizationConfig(num_samples=4, preset="none")
    return read_bundle(quantkit.quantize(model, config=config).save(folder, formats=FORMATS))


def _alone(bundle: Bundle) -> float:
    """The median latency of one image at a time in the default deployment, in ms."""
    with Running(default([bundle])) as running:
        return running.measure(Load(1, 1), _SECONDS).p50


def _tuned(network: str, bound: Optional[float], bundle: Bundle, minutes: float) -> Row:
    try:
        return _row(network, bound, tune([bundle], TuningGoal(p99=bound), minutes, again=True))
    except QuantkitError as error:
        return Row(network, bound, "", 0.0, 0.0, 0, [], str(error))


def _row(network: str, bound: Optional[float], tuned: Tuned) -> Row:
    winner = tuned.winner
    others = []
    for each in tuned.finalists:
        if each is not winner:
            over = tuned.over(each)
            figures = (each.rate, each.p99, (over.value, over.low, over.high))
            others.append(Other(each.contestant.name, each.contestant.own, *figures))
    return Row(network, bound, winner.contestant.name, winner.rate, winner.p99, len(winner.points), others)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    rows = [
        Row(**{**row, "others": [Other(**{**each, "ratio": tuple(each["ratio"])}) for each in row["others"]]})
        for row in document["rows"]
    ]
    parts = (
        described(document),
        "The winner over what engines do by themselves: each default session, the best of these in each case, and the "
        "best of all modes, as far as they keep the bound. Geometric means over cases, with the 95 % interval.",
        "\n".join([*table(_MEANS), *_means(rows)]),
        "Every case. Another whose p99 is above the bound does not keep it, and counts in no mean. The winner is "
        "chosen over quantkit's default by these same rounds, so that this ratio may be a little too high.",
        "\n".join([*table(_COLUMNS), *(line for row in rows for line in _lines(row))]),
    )
    return "\n\n".join(parts) + "\n"


def _means(rows: Sequence[Row]) -> Iterator[str]:
    bounds = {"without a bound": [row for row in rows if row.bound is None]}
    bounds["under a bound"] = [row for row in rows if row.bound is not None]
    for title, some in bounds.items():
        defaults = sorted({other.name for row in some for other in row.others if other.mode == "default"})
        chosen: dict[str, Callable[[Other], bool]] = {name: partial(_is_called, name) for name in defaults}
        chosen["the best default session"] = lambda other: other.mode == "default"
        chosen["the best of all modes"] = lambda other: other.mode in _OWN
        for name, counts in chosen.items():
            found = [best for row in some if (best := _best(row, counts)) is not None]
            if found:
                mean, (lowest, network) = geometric_mean([ratio for ratio, _ in found]), _smallest(found)
                told = f"{mean.value:.3f} [{mean.low:.3f}, {mean.high:.3f}]", f"{lowest:.3f} ({network})"
                yield f"| {' | '.join((f'{name}, {title}', f'{len(found)} of {len(some)}', *told))} |"


def _is_called(name: str, other: Other) -> bool:
    return other.name == name


def _smallest(found: Sequence[tuple[Ratio, str]]) -> tuple[float, str]:
    return min((ratio.value, network) for ratio, network in found)


def _best(row: Row, counts: Callable[[Other], bool]) -> Optional[tuple[Ratio, str]]:
    """The winner over the best of some others that keep the bound."""
    own = [each for each in row.others if counts(each) and (row.bound is None or each.p99 <= row.bound)]
    best = max(own, key=lambda each: each.rate, default=None)
    return None if best is None else (Ratio(*best.ratio), row.network)


def _lines(row: Row) -> list[str]:
    bound = "" if row.bound is None else f"{row.bound:.1f}"
    head: Sequence[str] = (row.network, bound, row.winner, f"{row.rate:.1f}", f"{row.p99:.1f}")
    lines = [f"| {' | '.join((row.network, bound, row.problem, *[''] * 5))} |"] if row.problem else []
    for other in row.others:
        ratio, low, high = other.ratio
        told = (other.name, f"{ratio:.3f} [{low:.3f}, {high:.3f}]", f"{other.p99:.1f}")
        lines.append(f"| {' | '.join((*head, *told))} |")
        head = ("",) * len(head)
    return lines


if __name__ == "__main__":
    run(main)
