"""What share of a step a network spends on its links that is too large for them: an MLP with a wide, sparse input.

    python benchmarks/input_bound.py --out benchmarks/results/input-bound

The published network has 250,000 inputs, layers of 1024 and 512, and 200,000 classes. Here both ends are a tenth of it
as a default (--divisor), of which weights, gradients, AdaMax's two states and the server's copies fit the memory of
small machines. Samples have 100 inputs that are not 0. They are given as dense arrays, and as sparse ones (CSR), for
which the first layer's gradient has only the rows of inputs that occur. One instance of one core trains, or two that
exchange gradients through MXNet's parameter server as Gluon's own trainer does. Each part of a step is waited for:
`copy`, samples become the engine's arrays; `compute`, forward, backward and update; `wait`, for the other instance;
`communication`, gradients are added up. MXNet adds sparse gradients up only where the kvstore applies them, so that
weights come back, and the optimizer is part of the communication there; MXNet's Adam changes just the rows that occur,
its AdaMax all. Means over steps and instances; nothing else may run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from command_line import Document, arguments, at_least, rows_page, run, table, write_rows
from scipy.sparse import csr_matrix
from training_instances import on_instances
from training_steps import Ticks, mean_parts

from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.training.communication import Alone, Communication
from quantkit.training.kvstore import KVStore

BATCH, NONZERO = 128, 100
PUBLISHED_INPUTS, PUBLISHED_CLASSES, HIDDEN = 250_000, 200_000, (1024, 512)
COLUMNS = (
    "inputs",
    "classes",
    "parameters",
    "samples",
    "optimizer",
    "instances",
    "step, ms",
    "copy, %",
    "compute, %",
    "wait, %",
    "communication, %",
)
FORMS = tuple(product((False, True), ("adamax", "adam")))
_WARM, _COUNTED = 1, 5


@dataclass(frozen=True)
class Row:
    """What the parts of a step take, in seconds: copy, compute, wait, communication."""

    inputs: int
    classes: int
    sparse: bool
    optimizer: str
    instances: int
    parts: Sequence[float]


def main() -> None:
    """Measure dense and sparse samples, on one instance and on two."""
    parser = arguments(__doc__)
    parser.add_argument("--divisor", type=at_least(1), default=10, help="of the published inputs and classes")
    parser.add_argument("--instance", help="measure as an instance; for this script itself")
    options = parser.parse_args()
    if options.network:
        parser.error("there is one network; leave --network out")
    if options.instance:
        instance(**json.loads(options.instance))
        return
    size = {"inputs": PUBLISHED_INPUTS // options.divisor, "classes": PUBLISHED_CLASSES // options.divisor}
    # MXNet would tell of every gradient that its AdaMax makes dense.
    os.environ["MXNET_STORAGE_FALLBACK_LOG_VERBOSE"] = "0"
    rows = []
    print("\n".join(table(COLUMNS)), flush=True)
    for (sparse, optimizer), instances in product(FORMS, (1, 2)):
        told = {**size, "sparse": sparse, "optimizer": optimizer, "instances": instances}
        found = [Row(**json.loads(text)) for text in on_instances(Path(__file__), told, "dist_sync", instances)]
        rows.append(replace(found[0], parts=mean_parts([row.parts for row in found])))
        print(_line(asdict(rows[-1])), flush=True)
    if options.out is not None:
        command = f"python benchmarks/input_bound.py --divisor {options.divisor}"
        write_rows(options.out, command, rows, page)


def instance(inputs: int, classes: int, sparse: bool, optimizer: str, instances: int, cpus: list[int]) -> None:
    """Measure as one instance, and print what was found."""
    os.sched_setaffinity(0, cpus)
    communication: Communication = KVStore() if instances > 1 else Alone()
    step = _step(inputs, classes, sparse, optimizer, communication)
    found = [step() for _ in range(_WARM + _COUNTED)]
    communication.leave()
    print(json.dumps(asdict(Row(inputs, classes, sparse, optimizer, instances, mean_parts(found[_WARM:])))))


def _step(
    inputs: int, classes: int, sparse: bool, optimizer: str, communication: Communication
) -> Callable[[], Sequence[float]]:
    """Trains on one batch; returns what its parts took."""
    mxnet = load_mxnet()
    nd, gluon = mxnet.nd, mxnet.gluon
    stored = "row_sparse" if sparse else "default"
    first = gluon.Parameter("first", shape=(inputs, HIDDEN[0]), stype=stored, grad_stype=stored)
    rest = gluon.nn.HybridSequential()
    rest.add(gluon.nn.Activation("relu"), gluon.nn.Dense(HIDDEN[1], activation="relu", in_units=HIDDEN[0]))
    rest.add(gluon.nn.Dense(classes, in_units=HIDDEN[1]))
    first.initialize(mxnet.init.Normal(0.01))
    rest.initialize(mxnet.init.Normal(0.01))
    rest.hybridize(static_alloc=True, static_shape=True)
    loss_of = gluon.loss.SoftmaxCELoss()
    params = {"first": first, **{param.name: param for param in rest.collect_params().values()}}
    store = communication._store if isinstance(communication, KVStore) else "local"
    # Servers are told before the first step, and keep to it.
    options = {"learning_rate": 1e-4, "rescale_grad": 1 / (BATCH * communication.instances)}
    trainer = gluon.Trainer(params, optimizer, options, kvstore=store, update_on_kvstore=sparse)
    x, y = _batch(inputs, classes)
    rows = nd.array(np.unique(x.indices), dtype="int64")

    def once() -> Sequence[float]:
        ticks = Ticks()
        data, labels = nd.sparse.csr_matrix(x) if sparse else nd.array(x.toarray()), nd.array(y)
        ticks.tick()
        weight = first.row_sparse_data(rows) if sparse else first.data()
        ticks.tick()
        with mxnet.autograd.record():
            hidden = nd.sparse.dot(data, weight) if sparse else nd.dot(data, weight)
            loss = loss_of(rest(hidden), labels)
        loss.backward()
        ticks.tick()
        communication.barrier()
        ticks.tick()
        if sparse:
            trainer.step(1)
        else:
            trainer.allreduce_grads()
        ticks.tick()
        if not sparse:
            trainer.update(1)
        ticks.tick()
        copy, pull, compute, wait, exchange, update = ticks.seconds()
        return copy, compute + update, wait, pull + exchange

    return once


def _batch(inputs: int, classes: int) -> tuple[Any, np.ndarray]:
    """Samples in SciPy's CSR form, and their classes."""
    drawn = np.random.default_rng(0)
    columns = np.concatenate([drawn.choice(inputs, NONZERO, replace=False) for _ in range(BATCH)])
    rows = np.arange(BATCH + 1) * NONZERO
    values = np.ones(len(columns), np.float32)
    return csr_matrix((values, columns, rows), shape=(BATCH, inputs)), drawn.integers(0, classes, BATCH)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    note = (
        f"Batches of {BATCH} for each instance, which has one core; {NONZERO} inputs of a sample are not 0. Of sparse "
        "samples, the kvstore applies the gradients, and the optimizer is part of the communication."
    )
    return rows_page(document, COLUMNS, lines(document), note)


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The rows of the table."""
    yield from map(_line, document["rows"])


def _line(row: Mapping[str, Any]) -> str:
    found = Row(**row)
    sizes = (found.inputs, *HIDDEN, found.classes)
    parameters = sum(one * other for one, other in pairwise(sizes))
    whole = sum(found.parts)
    facts = (
        found.inputs,
        found.classes,
        f"{parameters / 1e6:.1f} million",
        "sparse" if found.sparse else "dense",
        found.optimizer,
        found.instances,
        f"{1e3 * whole:.0f}",
        *(f"{100 * part / whole:.1f}" for part in found.parts),
    )
    return f"| {' | '.join(map(str, facts))} |"


if __name__ == "__main__":
    run(main)
