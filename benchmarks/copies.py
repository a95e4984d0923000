"""What deployed networks gain where MXNet copies arrays with one thread, as quantkit has it do.

    python benchmarks/copies.py --out benchmarks/results/copies

Latencies with MXNet's own setting, which copies arrays of more than 200,000 elements with several threads, over those
with quantkit's. MXNet reads the setting once, so in each round both run in processes of their own, in random order; the
rest is as in turns.py. Networks have random weights, which are as fast as trained ones. OUT.json has every reading, in
ms. Nothing else may run.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from time import perf_counter

import numpy as np
from command_line import Document, host_facts, rows_page, run, table, write_results
from turns import Ticks, command_of, milliseconds, ratio, timing_arguments

import quantkit
from quantkit.backends.mxnet.compat import PARALLEL_SIZE
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.ir.graph import Graph

NETWORKS = ("resnet50_v1", "mobilenet1.0", "mobilenetv2_1.0", "squeezenet1.0", "inceptionv3")
BATCHES = (1, 8)

_OWN, _ONE_THREAD = "MXNet's own setting", "one thread"
_ELEMENTS = {_OWN: 200_000, _ONE_THREAD: 2**31 - 1}
_COLUMNS = ("network", "form", "batch", "rounds", "one thread, ms", "MXNet's own setting, times that")
_WARM_UP = 10


@dataclass(frozen=True)
class Cell:
    """The readings of one network in one form at one batch size, by setting."""

    network: str
    form: str
    batch: int
    ticks: Ticks


def main() -> None:
    """Measure every network named on the command line."""
    options = timing_arguments(__doc__, rounds=5, runs=30).parse_args()
    names = [name for name in NETWORKS if not options.network or any(part in name for part in options.network)]
    print("\n".join(table(_COLUMNS)), flush=True)
    found: list[Cell] = []
    for cell in (cell for name in names for cell in cells(name, options.rounds, options.runs)):
        found.append(cell)
        print(_line(cell), flush=True)
    if options.out is not None:
        figures = {"cells": [asdict(cell) for cell in found]}
        write_results(options.out, command_of("copies", options), host_facts(), figures, page)


def cells(name: str, rounds: int, runs: int) -> Iterator[Cell]:
    """Both forms of a network at all batch sizes."""
    model = quantkit.load_model(name, weights="random", quiet=True)
    quantized = quantkit.quantize(model, config=quantkit.QuantizationConfig(num_samples=4, preset="none"))
    for form, graph in {"fused": quantkit.fuse(model).graph, "INT8": quantized.graph}.items():
        for batch in BATCHES:
            shape = (batch, *model.input_shape)
            turns = [_round(graph, shape, runs, seed) for seed in range(rounds)]
            yield Cell(name, form, batch, {setting: [turn[setting] for turn in turns] for setting in _ELEMENTS})


def _round(graph: Graph, shape: tuple[int, ...], runs: int, seed: int) -> dict[str, list[float]]:
    readings = {}
    for setting in random.Random(seed).sample(list(_ELEMENTS), len(_ELEMENTS)):
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            readings[setting] = pool.submit(readings_of, graph, shape, runs, _ELEMENTS[setting]).result()
    return readings


def readings_of(graph: Graph, shape: tuple[int, ...], runs: int, elements: int) -> list[float]:
    """The latency of each run in ms, where arrays of more elements are copied by several threads."""
    os.environ[PARALLEL_SIZE] = str(elements)
    inputs = dict.fromkeys(graph.inputs, np.random.default_rng(0).random(shape, np.float32))
    session = MxnetSession(graph, dict.fromkeys(graph.inputs, shape))
    ticks = []
    for _ in range(_WARM_UP + runs):
        begin = perf_counter()
        session.run(inputs)
        ticks.append((perf_counter() - begin) * 1e3)
    return ticks[_WARM_UP:]


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, (_line(Cell(**each)) for each in document["cells"]))


def _line(cell: Cell) -> str:
    ticks = cell.ticks
    rounds = str(len(ticks[_ONE_THREAD]))
    facts = (cell.network, cell.form, str(cell.batch), rounds, milliseconds(ticks, _ONE_THREAD))
    return f"| {' | '.join((*facts, ratio(ticks, _OWN, _ONE_THREAD)))} |"


if __name__ == "__main__":
    run(main)
