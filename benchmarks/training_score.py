"""Images trained per second, by network and batch, as in the training tables of MXNet's performance guide.

    python benchmarks/training_score.py --out benchmarks/results/training-score

Networks with random weights learn from one random batch, in one process on all cores: forward, backward and an update
by SGD with momentum, as `quantkit finetune` makes them. As in the guide, AlexNet has 16 times the batch. Medians of
steps, with the slowest and the fastest. Nothing else may run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from command_line import Document, arguments, at_least, rows_page, run, write_rows
from training_steps import Subject, in_training, stepping, timed

import quantkit
from quantkit.training.communication import Alone

BATCHES = (1, 2, 4, 8, 16, 32)
SIDES = {"alexnet": 224, "inceptionv3": 299, "resnet50_v1": 224}
TIMES = {"alexnet": 16}
_WARM = 1


@dataclass(frozen=True)
class Row:
    """A network at a batch size, with the seconds of its steps."""

    network: str
    batch: int
    seconds: list[float]


def main() -> None:
    """Measure every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=at_least(1), default=5)
    parser.add_argument("--batches", type=at_least(1), nargs="+", default=BATCHES)
    options = parser.parse_args()
    rows: list[Row] = []
    for network in SIDES:
        if options.network and not any(part in network for part in options.network):
            continue
        model = quantkit.load_model(network, weights="random", quiet=True)
        for batch in options.batches:
            rows.append(measured(model, Subject(network, SIDES[network], batch * TIMES.get(network, 1)), options.steps))
            print(rows[-1].network, rows[-1].batch, _rate(rows[-1]), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        command = (
            f"python benchmarks/training_score.py{parts} --steps {options.steps} "
            f"--batches {' '.join(map(str, options.batches))}"
        )
        write_rows(options.out, command, rows, page)


def measured(model: quantkit.Model, subject: Subject, steps: int) -> Row:
    """Train for some steps."""
    step = stepping(model, subject, in_training(model, subject, Alone()))
    seconds = [timed(step) for _ in range(_WARM + steps)]
    return Row(subject.network, subject.batch, seconds[_WARM:])


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = "Images per second: the median of the steps, with the slowest and the fastest."
    return rows_page(document, columns(document), lines(document), note)


def columns(document: Mapping[str, Any]) -> list[str]:
    """The head of the table: batches; those of AlexNet are 16 times as large."""
    batches = [row["batch"] // TIMES.get(row["network"], 1) for row in document["rows"]]
    return ["network", *(f"batch {batch}" for batch in dict.fromkeys(batches))]


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the table."""
    for network, group in groupby((Row(**row) for row in document["rows"]), key=lambda row: row.network):
        times = f", {TIMES[network]} times the batch" if network in TIMES else ""
        yield f"| {network}{times} | {' | '.join(map(_rate, group))} |"


def _rate(row: Row) -> str:
    low, middle, high = (row.batch / statistic(row.seconds) for statistic in (max, median, min))
    return f"{middle:.1f} [{low:.1f}, {high:.1f}]"


if __name__ == "__main__":
    run(main)
