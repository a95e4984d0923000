"""How training scales with instances, beside the published table of ResNet-50.

    python benchmarks/training_scaling.py --out benchmarks/results/training-scaling

`finetune` trains networks with random weights on random images, as many samples per instance in each step whatever the
number of instances (the published experiments do the same), with the augmentation that is the default. Each instance
has one core, and its own feed on that core; one instance exchanges nothing, several do so through MXNet's parameter
server and, where it is installed (`make train-bench ENGINE=horovod`), through Horovod. All take turns in random order,
each with fresh processes; of each turn the first epoch, in which memory is laid out, does not count. The time is that
of the steps; what lies between two epochs, such as the checkpoint, is told apart from it, since epochs of real samples
are longer.
Efficiency is the throughput over that of as many single instances, a geometric mean over rounds with Student's 95 %
interval. Cores of one machine slow each other down, so single trainings side by side, which exchange nothing, take
turns as well: what instances have of their throughput is the efficiency of the exchange. OUT.json has every reading.
Nothing else may run.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Optional

import numpy as np
from command_line import ROUNDS, Document, arguments, at_least, described, host_facts, run, table, write_results
from kvstore import kvstores
from published_tables import record

import quantkit
from quantkit.benchmark.placement.placement import place
from quantkit.benchmark.results.statistics import paired_ratio
from quantkit.errors import EngineError
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
)


@dataclass(frozen=True)
class Subject:
    """A network to train: its name, the size of the stored images, the batch of an instance, and the steps an epoch."""

    network: str
    side: int
    batch: int
    steps: int


SUBJECTS = (
    Subject("cifar_resnet20_v1", 32, 32, 40),
    Subject("cifar_resnet20_v1", 32, 128, 10),
    Subject("mobilenet1.0", 256, 16, 10),
    Subject("mobilenet1.0", 256, 64, 3),
    Subject("resnet18_v1", 256, 16, 8),
    Subject("resnet50_v1", 256, 8, 6),
    Subject("resnet50_v1", 256, 32, 3),
)


@dataclass(frozen=True)
class Turn:
    """A reading of all instances together.

    Attributes:
        throughput: images per second of their steps.
        waiting: the share of the steps' time in which they waited for data.
        between: seconds from the last step of an epoch to the first of the next one.
    """

    throughput: float
    waiting: float
    between: float


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
    parser.add_argument("--rounds", type=ROUNDS, default=5)
    parser.add_argument("--epochs", type=at_least(2), default=2, help="of each turn, the first does not count")
    parser.add_argument("--single", help="one training of those side by side; for this script itself")
    options = parser.parse_args()
    if options.single:
        single(**json.loads(options.single))
        return
    most = len(place("core", read_topology()))
    wanted = [each for each in SUBJECTS if not options.network or any(part in each.network for part in options.network)]
    cells: list[Cell] = []
    for subject in wanted:
        found = list(of_network(subject, most, options.rounds, options.epochs))
        cells += found
        print("\n".join(_rows(found)), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        command = f"python benchmarks/training_scaling.py{parts} --rounds {options.rounds} --epochs {options.epochs}"
        write_results(options.out, command, host_facts(), {"cells": [asdict(each) for each in cells]}, page)


def of_network(subject: Subject, most: int, rounds: int, epochs: int) -> Iterator[Cell]:
    """The network on 1, 2, 4, ... instances, up to ``most``."""
    numbers = [1 << power for power in range(most.bit_length()) if 1 << power <= most]
    forms = [(1, ""), *((number, through) for number in numbers[1:] for through in (APART, *kvstores()))]
    model = quantkit.load_model(subject.network, weights="random", quiet=True)
    parameters = sum(value.size for value in model.graph.params.values())
    shuffled = random.Random(0)
    turns: dict[tuple[int, str], list[Turn]] = {form: [] for form in forms}
    with scratch_folder() as scratch:
        images = stored(scratch / "images.npz", subject, max(numbers))
        for _ in range(rounds):
            for form in shuffled.sample(forms, len(forms)):
                turns[form].append(_turn(model, images, subject, *form, epochs))
    for number, through in forms:
        yield Cell(subject.network, parameters, subject.batch, number, through, turns[number, through])


def _turn(model: quantkit.Model, images: Path, subject: Subject, instances: int, through: str, epochs: int) -> Turn:
    if through == APART:
        return side_by_side(images, subject, instances, epochs)
    return one_turn(model, images, subject, instances, "horovod" if through == "horovod" else "dist_sync", epochs)


def side_by_side(images: Path, subject: Subject, instances: int, epochs: int) -> Turn:
    """Single trainings at once, each on a core of its own."""
    turns, processes = [], []
    with ExitStack() as stack:
        for placement in place(f"{instances}x1", read_topology()):
            told = {"images": str(images), "subject": asdict(subject), "epochs": epochs, "cpus": placement.cpus}
            command = [sys.executable, str(Path(__file__)), "--single", json.dumps(told)]
            processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(processes[-1].kill)
        for process in processes:
            text, _ = process.communicate()
            if process.returncode:
                raise EngineError(f"a training of {subject.network} side by side with others ended with an error")
            turns.append(Turn(**json.loads(text)))
    return Turn(
        sum(turn.throughput for turn in turns),
        float(np.mean([turn.waiting for turn in turns])),
        float(np.mean([turn.between for turn in turns])),
    )


def single(images: str, subject: Mapping[str, Any], epochs: int, cpus: list[int]) -> None:
    """Train on some hardware threads, and print the reading."""
    os.sched_setaffinity(0, cpus)
    case = Subject(**subject)
    model = quantkit.load_model(case.network, weights="random", quiet=True)
    print(json.dumps(asdict(one_turn(model, Path(images), case, 1, "dist_sync", epochs))))


def stored(path: Path, subject: Subject, most: int) -> Path:
    """Random images for the steps of an epoch of ``most`` instances."""
    drawn = np.random.default_rng(0)
    number = subject.steps * subject.batch * most
    x = drawn.integers(0, 256, (number, subject.side, subject.side, 3), dtype=np.uint8)
    np.savez(path, x=x, y=drawn.integers(0, CLASSES, number))
    return path


def one_turn(
    model: quantkit.Model, images: Path, subject: Subject, instances: int, kvstore: KVStoreName, epochs: int
) -> Turn:
    """Train for some epochs."""
    config = quantkit.TrainingConfig(epochs=epochs, batch_size=subject.batch * instances, learning_rate=1e-3)
    return reading(model, images, CLASSES, config, instances, kvstore)


def reading(
    model: quantkit.Model,
    images: Path,
    classes: int,
    config: quantkit.TrainingConfig,
    instances: int,
    kvstore: KVStoreName,
) -> Turn:
    """Train on instances of one core; the first epoch does not count."""
    ends: list[float] = []
    trained = quantkit.finetune(
        model,
        str(images),
        classes=classes,
        config=config,
        instances=f"{instances}x1",
        kvstore=kvstore,
        workers=1,
        told=lambda _: ends.append(perf_counter()),
    )
    counted = trained.epochs[1:]
    seconds = sum(epoch.seconds for epoch in counted)
    return Turn(
        sum(epoch.samples for epoch in counted) / seconds,
        sum(epoch.waited for epoch in counted) / seconds,
        (ends[-1] - ends[0] - seconds) / len(counted),
    )


def page(document: Document) -> str:
    """The page of a run's JSON."""
    published = [f"| {row[1]} | {row[3]:.2f} |" for row in record("mxnet-1.5-scaling")["rows"]]
    parts = (
        described(document),
        "Each instance has one core. Images/s are those of the steps; the last column is what lies between two epochs, "
        "such as the checkpoint. Efficiency is the throughput over that of as many single instances, with its 95 % "
        f"interval over rounds. Those called {APART} are single trainings side by side, which exchange nothing; what "
        "instances have of their throughput is the efficiency of the exchange. Waiting is the share of time in which a "
        "network waited for data.",
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
    speeds = [turn.throughput for turn in cell.turns]
    efficiency = "100"
    if cell.instances > 1:
        efficiency = share(speeds, [cell.instances * turn.throughput for turn in alone.turns])
    of_apart = ""
    if apart is not None and apart != cell:
        of_apart = share(speeds, [turn.throughput for turn in apart.turns])
    waiting = 100 * float(np.mean([turn.waiting for turn in cell.turns]))
    parameters = f"{cell.parameters / 1e6:.1f} million"
    facts = (
        cell.network,
        parameters,
        cell.batch,
        cell.instances,
        cell.through,
        f"{np.median(speeds):.1f}",
        efficiency,
        of_apart,
        f"{waiting:.1f}",
        f"{np.median([turn.between for turn in cell.turns]):.2f}",
    )
    return f"| {' | '.join(map(str, facts))} |"


def share(speeds: Sequence[float], whole: Sequence[float]) -> str:
    """In percent, with its interval."""
    ratio = paired_ratio(speeds, whole)
    return f"{100 * ratio.value:.1f} [{100 * ratio.low:.1f}, {100 * ratio.high:.1f}]"


if __name__ == "__main__":
    run(main)
