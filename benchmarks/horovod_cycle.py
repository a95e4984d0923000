"""What the cycle time of Horovod's threads takes from two instances of one core each.

    python benchmarks/horovod_cycle.py --out benchmarks/results/horovod-cycle

Networks learn as in training_scaling.py, through Horovod: with the cycle time that quantkit sets, and with others. All
take turns of seconds in random order, see alternating_trainings.py. What each has of the throughput with quantkit's
cycle time is a geometric mean over rounds with Student's 95 % interval, of one start of each training. It needs Horovod
(`make train-bench ENGINE=horovod`). Nothing else may run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, Optional

from alternating_trainings import Training, turns
from command_line import Document, arguments, at_least, rows_page, run, table, write_rows
from training_scaling import Subject, share, training

import quantkit
from quantkit.files.folders import scratch_folder
from quantkit.training.horovod_cycle import cycle_time

COLUMNS = ("network", "batch of an instance", "cycle time, ms", "images/s", "throughput, % of that with quantkit's")
SUBJECTS = (
    Subject("cifar_resnet20_v1", 32, 32, 6),
    Subject("mobilenet1.0", 256, 16, 2),
    Subject("resnet50_v1", 256, 8, 2),
)
MILLISECONDS = (1, 3, 10, 30, 100)
_VARIABLE, _INSTANCES = "HOROVOD_CYCLE_TIME", 2


@dataclass(frozen=True)
class Row:
    """A network's images per second in each round, with a cycle time in milliseconds; ``own``: it is quantkit's."""

    network: str
    batch: int
    cycle: float
    own: bool
    throughput: Sequence[float]


def main() -> None:
    """Measure every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=at_least(1), default=8, help="of each network")
    options = parser.parse_args()
    # Else the user's would stand for quantkit's.
    os.environ.pop(_VARIABLE, None)
    rows: list[Row] = []
    for subject in SUBJECTS:
        if not options.network or any(part in subject.network for part in options.network):
            found = list(of_network(subject, options.minutes))
            rows += found
            print("\n".join([*table(COLUMNS), *lines({"rows": [asdict(row) for row in found]})]), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        write_rows(options.out, f"python benchmarks/horovod_cycle.py{parts} --minutes {options.minutes}", rows, page)


def of_network(subject: Subject, minutes: int) -> Iterator[Row]:
    """The network with each cycle time, quantkit's own first."""
    model = quantkit.load_model(subject.network, weights="random", quiet=True)
    own = round(cycle_time(model, subject.batch, 1), 1)
    with scratch_folder() as scratch:
        usual = training(model, subject, scratch, _INSTANCES, "horovod")
        forms: dict[Optional[int], list[Training]] = {None: [usual]}
        forms |= {cycle: [replace(usual, variables={_VARIABLE: str(cycle)})] for cycle in MILLISECONDS}
        found = turns(forms, minutes)
    for cycle, readings in found.items():
        speeds = [turn.throughput for turn in readings]
        yield Row(subject.network, subject.batch, own if cycle is None else cycle, cycle is None, speeds)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        "Two instances of one core each, through Horovod. The first row of each network has the cycle time that "
        "quantkit sets; the last column is the throughput in percent of that row's, with its 95 % interval over "
        "rounds. Each training was started once; processes of the same training differ for as long as they live, which "
        "the intervals do not cover: compare rows of nearly the same cycle time."
    )
    return rows_page(document, COLUMNS, lines(document), note)


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the table."""
    own: Sequence[float] = ()
    for row in (Row(**each) for each in document["rows"]):
        own = row.throughput if row.own else own
        compared = "100" if row.own else share(row.throughput, own)
        facts = (row.network, row.batch, f"{row.cycle:g}", f"{median(row.throughput):.1f}", compared)
        yield f"| {' | '.join(map(str, facts))} |"


if __name__ == "__main__":
    run(main)
