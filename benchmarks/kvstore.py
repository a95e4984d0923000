"""How fast instances exchange the gradients of a network, and what share of a step that takes.

    python benchmarks/kvstore.py --out benchmarks/results/kvstore

Two instances of one core each, on this machine, through each kvstore that is installed. An exchange adds up the
gradients of all parameters, as in MXNet's bandwidth tool; its rate is the bytes of the gradients over its time. A
step with another instance is compared with a step without: the rest of the time is what communication takes that is not
hidden behind the computation, a geometric mean over rounds with Student's 95 % interval. Where each part of a step is
waited for, its time is that of copying samples into the engine's arrays, of computing, of waiting for the other
instance, and of communication: means over steps and instances, since of two that take turns in being late each waits in
half of the steps only. All else are medians over rounds, in which the calls take turns. OUT.json has every reading.
Nothing else may run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from command_line import Document, arguments, rows_page, run, table, write_rows
from training_instances import kvstores, on_instances
from training_steps import Subject, Ticks, in_training, mean_parts, random_batch, stepping, timed

import quantkit
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.benchmark.results.statistics import paired_ratio
from quantkit.training.communication import Alone, Communication
from quantkit.training.horovod import Horovod
from quantkit.training.horovod_cycle import cycle_time
from quantkit.training.kvstore import KVStore
from quantkit.training.launch import KVStoreName
from quantkit.training.network import TrainedNetwork

COLUMNS = (
    "network",
    "parameters",
    "batch of an instance",
    "through",
    "exchange, ms",
    "GB/s",
    "step alone, ms",
    "step of two, ms",
    "communication, %",
    "rounds",
    "one by one: copy, %",
    "compute, %",
    "wait, %",
    "communication, %",
)
_INSTANCES = 2

# Rounds of calls: as many as take some seconds, within bounds.
_WARM = 2
_SECONDS, _FEWEST, _MOST = 30, 6, 100


SUBJECTS = (
    Subject("cifar_resnet20_v1", 32, 32),
    Subject("mobilenet1.0", 224, 16),
    Subject("resnet18_v1", 224, 16),
    Subject("resnet50_v1", 224, 8),
    Subject("resnet50_v1", 224, 32),
    Subject("vgg16", 224, 4),
)


@dataclass(frozen=True)
class Row:
    """What two instances took, in seconds; ``parts`` are those of a step: copy, compute, wait, communication.

    The parts are means over both instances, all others the readings of the first, by round.
    """

    network: str
    parameters: int
    batch: int
    kvstore: str
    exchange: Sequence[float]
    alone: Sequence[float]
    together: Sequence[float]
    parts: Sequence[float]


def main() -> None:
    """Measure every network named on the command line."""
    parser = arguments(__doc__)
    parser.add_argument("--instance", help="measure as an instance of a network; for this script itself")
    options = parser.parse_args()
    if options.instance:
        instance(**json.loads(options.instance))
        return
    rows = []
    print("\n".join(table(COLUMNS)), flush=True)
    for subject in SUBJECTS:
        if not options.network or any(part in subject.network for part in options.network):
            for kvstore in kvstores():
                rows.append(measured(subject, kvstore))
                print(_line(asdict(rows[-1])), flush=True)
    if options.out is not None:
        parts = "".join(f" --network {part}" for part in options.network or ())
        write_rows(options.out, f"python benchmarks/kvstore.py{parts}", rows, page)


def measured(subject: Subject, kvstore: KVStoreName) -> Row:
    """The figures of the first of two instances, with the parts of both."""
    told = {"subject": asdict(subject), "kvstore": kvstore}
    rows = [Row(**json.loads(text)) for text in on_instances(Path(__file__), told, kvstore, _INSTANCES)]
    return replace(rows[0], parts=mean_parts([row.parts for row in rows]))


def instance(subject: Mapping[str, Any], kvstore: KVStoreName, cpus: list[int]) -> None:
    """Measure as one instance, and print what was found."""
    os.sched_setaffinity(0, cpus)
    case = Subject(**subject)
    model = quantkit.load_model(case.network, weights="random", quiet=True)
    communication: Communication
    if kvstore == "horovod":
        communication = Horovod(compress=False, cycle=cycle_time(model, case.batch, 1))
    else:
        communication = KVStore()
    trained = in_training(model, case, communication)
    step_alone = stepping(model, case, in_training(model, case, Alone()))
    calls = (_exchange(trained), step_alone, stepping(model, case, trained))
    exchange, alone, together = _readings(calls, communication)
    parts = mean_parts([_parts(model, case, trained, communication) for _ in together])
    communication.leave()
    parameters = sum(param.data().size for param in trained._trainer._params)
    print(json.dumps(asdict(Row(case.network, parameters, case.batch, kvstore, exchange, alone, together, parts))))


def _exchange(trained: TrainedNetwork) -> Callable[[], None]:
    """Adds up the gradients of the network's parameters over the instances."""
    # A second trainer would take the same keys of the parameter server.
    trainer = trained._trainer

    def once() -> None:
        trainer.allreduce_grads()

    return once


def _parts(
    model: quantkit.Model, subject: Subject, trained: TrainedNetwork, communication: Communication
) -> Sequence[float]:
    """What a step's parts take that wait for each other: copy, compute, wait, communication."""
    mxnet, trainer = load_mxnet(), trained._trainer
    data, targets = random_batch(model, subject)
    ticks = Ticks()
    x, y = mxnet.nd.array(data), mxnet.nd.array(targets)
    ticks.tick()
    with mxnet.autograd.record():
        loss = trained._loss(trained._block(x).reshape((len(data), -1)), y)
    loss.backward()
    ticks.tick()
    communication.barrier()
    ticks.tick()
    trainer.allreduce_grads()
    ticks.tick()
    trainer.update(subject.batch * communication.instances)
    ticks.tick()
    copy, compute, wait, exchange, update = ticks.seconds()
    return copy, compute + update, wait, exchange


def _readings(calls: Sequence[Callable[[], None]], communication: Communication) -> list[list[float]]:
    """Seconds of each call in each round; they take turns, and instances begin each at once."""

    def turn(call: Callable[[], None]) -> float:
        communication.barrier()
        return timed(call)

    warm = [[turn(call) for call in calls] for _ in range(_WARM)]
    # Of both instances, as they make the same number of rounds.
    took = float(communication.all_reduce(np.array([sum(warm[-1])], np.float32))[0]) / communication.instances
    rounds = min(max(round(_SECONDS / took), _FEWEST), _MOST)
    return [list(found) for found in zip(*([turn(call) for call in calls] for _ in range(rounds)))]


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        "Two instances of one core each. Communication is the share of a step of two that a step alone does not take, "
        "with its 95 % interval over rounds; where each part of a step is waited for, one by one, the shares are those "
        "of the last columns."
    )
    return rows_page(document, COLUMNS, lines(document), note)


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the table."""
    yield from map(_line, document["rows"])


def _line(row: Mapping[str, Any]) -> str:
    found = Row(**row)
    exchange = median(found.exchange)
    alone = paired_ratio(found.alone, found.together)
    shares = (100 - 100 * each for each in (alone.value, alone.high, alone.low))
    facts = (
        found.network,
        f"{found.parameters / 1e6:.1f} million",
        found.batch,
        found.kvstore,
        f"{1e3 * exchange:.1f}",
        f"{4e-9 * found.parameters / exchange:.2f}",
        f"{1e3 * median(found.alone):.0f}",
        f"{1e3 * median(found.together):.0f}",
        "{:.1f} [{:.1f}, {:.1f}]".format(*shares),
        len(found.together),
        *(f"{100 * part / sum(found.parts):.1f}" for part in found.parts),
    )
    return f"| {' | '.join(map(str, facts))} |"


if __name__ == "__main__":
    run(main)
