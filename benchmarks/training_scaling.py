"""How training scales with instances, beside the published table of ResNet-50.

    python benchmarks/training_scaling.py --out benchmarks/results/training-scaling

`finetune` trains networks with random weights on random images, as many samples per instance in each step whatever the
number of instances (the published experiments do the same), with the augmentation that is the default. Each instance
has one core, and its own feed on that core; one instance exchanges nothing, several do so through MXNet's parameter
server and, where it is installed (`make train-bench ENGINE=horovod`), through Horovod. All take turns of seconds in
random order, see alternating_trainings.py. The time is that of the steps; what lies between two epochs, such as the
checkpoint, is told apart from it, since epochs of real samples are longer.
Efficiency is the throughput over that of as many single instances, a geometric mean with Student's 95 % interval over
starts of the trainings. Cores of one machine slow each other down, so single trainings side by side, which exchange
nothing, take turns as well: what instances have of their throughput is the efficiency of the exchange. OUT.json has
every reading. Nothing else may run; two instances of each form of ResNet-50 need 20 GB of memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Optional

import numpy as np
from alternating_trainings import Training, Turn, throughputs, turns
from command_line import Document, arguments, at_least, described, host_facts, run, table, write_results
from published_tables import record
from training_instances import kvstores

import quantkit
from quantkit.benchmark.placement.placement import place
from quantkit.benchmark.results.statistics import paired_ratio
from quantkit.files.folders import scratch_folder
from quantkit.host.topology import read_topology
from quantkit.training.launch import KVStoreName

CLASSES = 10
APART = "apart"
COLUMNS = (
    "network",
    "parameters",
    "batch of an instance",
    "instances",
    "through",
    "images/s",
    "efficiency, %",
    "of apart, %",
    "waiting, %",
    "between epochs, s",
    "starts",
    "rounds",
)


@dataclass(frozen=True)
class Subject:
    """A network to train: its name, the size of the stored images, the batch of an instance, and the steps an epoch."""

    network: str
    side: int
    batch: int
    steps: int


SUBJECTS = (
    Subject("cifar_resnet20_v1", 32, 32, 6),
    Subject("cifar_resnet20_v1", 32, 128, 2),
    Subject("mobilenet1.0", 256, 16, 2),
    Subject("resnet18_v1", 256, 16, 2),
    Subject("resnet50_v1", 256, 8, 2),
    Subject("resnet50_v1", 256, 24, 2),
)


@dataclass(frozen=True)
class Cell:
    """A network on a number of instances; ``turns`` are those of the rounds, in their order.

    ``through`` is their kvstore, APART for single trainings side by side, or empty for one.
    """

    network: str
    parameters: int
    batch: int
    instances: int
    through: str
    turns: Sequence[Turn]


def main() -> None:
    """Measure every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=at_least(1), default=8, help="of each network and batch, without its starts")
    parser.add_argument("--starts", type=at_least(1), default=4, help="how often each training is started")
    options = parser.parse_args()
    most = len(place("core", read_topology()))
    wanted = [each for each in SUBJECTS if not options.network or any(part in each.network for part in options.network)]
    cells: list[Cell] = []
    parts = "".join(f" --network {part}" for part in options.network or ())
    command = f"python benchmarks/training_scaling.py{parts} --minutes {options.minutes} --starts {options.starts}"
    for subject in wanted:
        found = list(of_network(subject, most, options.minutes, options.starts))
        cells += found
        print("\n".join(_rows(found)), flush=True)
        if options.out is not None:
            write_results(options.out, command, host_facts(), {"cells": [asdict(each) for each in cells]}, page)


def of_network(subject: Subject, most: int, minutes: int, starts: int) -> Iterator[Cell]:
    """The network on 1, 2, 4, ... instances, up to ``most``."""
    model = quantkit.load_model(subject.network, weights="random", quiet=True)
    parameters = sum(value.size for value in model.graph.params.values())
    with scratch_folder() as scratch:
        one = training(model, subject, scratch, 1)
        alone = [replace(one, cpus=placement.cpus) for placement in place(f"{most}x1", read_topology())]
        forms = {(1, ""): alone[:1]}
        for number in (1 << power for power in range(1, most.bit_length())):
            forms[number, APART] = alone[:number]
            forms |= {(number, name): [training(model, subject, scratch, number, name)] for name in kvstores()}
        found = turns(forms, minutes, starts=starts)
    for (number, through), readings in found.items():
        yield Cell(subject.network, parameters, subject.batch, number, through, readings)


def training(
    model: quantkit.Model, subject: Subject, folder: Path, instances: int, kvstore: KVStoreName = "dist_sync"
) -> Training:
    """The training of a network on random images, which are written into the folder."""
    images = folder / f"{instances}.npz"
    if not images.exists():
        drawn = np.random.default_rng(0)
        number = subject.steps * subject.batch * instances
        x = drawn.integers(0, 256, (number, subject.side, subject.side, 3), dtype=np.uint8)
        np.savez(images, x=x, y=drawn.integers(0, CLASSES, number))
    config = quantkit.TrainingConfig(batch_size=subject.batch * instances, learning_rate=1e-3)
    return Training(model, images, CLASSES, config, instances, kvstore)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    published = [f"| {row[1]} | {row[3]:.2f} |" for row in record("mxnet-1.5-scaling")["rows"]]
    parts = (
        described(document),
        "Each instance has one core. Images/s are those of the steps, the median over rounds; what lies between two "
        "epochs, such as the checkpoint, has a column of its own. Efficiency is the throughput over that of as many "
        "single instances, with its 95 % interval over starts; of one start, over rounds. Those called "
        f"{APART} are single trainings side by side, which exchange nothing; what instances have of their throughput "
        "is the efficiency of the exchange. Waiting is the share of time in which a network waited for data.",
        "\n".join([*table(COLUMNS), *lines(document)]),
        "Published for ResNet-50 v1 on ImageNet, an instance on each socket, on up to 16 machines, with Horovod:",
        "\n".join([*table(("instances", "efficiency, %")), *published]),
    )
    return "\n\n".join(parts) + "\n"


def lines(document: Document) -> list[str]:
    """The rows of the table."""
    return _rows([Cell(**{**each, "turns": [Turn(**turn) for turn in each["turns"]]}) for each in document["cells"]])


def _rows(cells: Sequence[Cell]) -> list[str]:
    alone = {(cell.network, cell.batch): cell for cell in cells if cell.instances == 1}
    apart = {(cell.network, cell.batch, cell.instances): cell for cell in cells if cell.through == APART}
    return [
        _line(cell, alone[cell.network, cell.batch], apart.get((cell.network, cell.batch, cell.instances)))
        for cell in cells
    ]


def _line(cell: Cell, alone: Cell, apart: Optional[Cell]) -> str:
    speeds = throughputs(cell.turns)
    efficiency = "100"
    if cell.instances > 1:
        efficiency = share(speeds, [cell.instances * speed for speed in throughputs(alone.turns)])
    of_apart = ""
    if apart is not None and apart != cell:
        of_apart = share(speeds, throughputs(apart.turns))
    waiting = 100 * float(np.mean([turn.waiting for turn in cell.turns]))
    parameters = f"{cell.parameters / 1e6:.1f} million"
    facts = (
        cell.network,
        parameters,
        cell.batch,
        cell.instances,
        cell.through,
        f"{np.median([turn.throughput for turn in cell.turns]):.1f}",
        efficiency,
        of_apart,
        f"{waiting:.1f}",
        f"{np.median([turn.between for turn in cell.turns]):.2f}",
        len({turn.start for turn in cell.turns}),
        len(cell.turns),
    )
    return f"| {' | '.join(map(str, facts))} |"


def share(speeds: Sequence[float], whole: Sequence[float]) -> str:
    """In percent, with its interval."""
    ratio = paired_ratio(speeds, whole)
    return f"{100 * ratio.value:.1f} [{100 * ratio.low:.1f}, {100 * ratio.high:.1f}]"


if __name__ == "__main__":
    run(main)
