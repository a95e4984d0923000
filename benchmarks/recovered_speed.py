"""Whether algorithms cost speed: latency of INT8 networks with those of a preset beside the same without any.

    QUANTKIT_REAL_DATA=DATA python benchmarks/recovered_speed.py --out benchmarks/results/recovered-speed

The networks are those of trained.toml. How ratios are measured is said in turns.py. OUT.json has every reading, in ms.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
from accuracy_rows import prepared_model
from command_line import Document, data_root, host_facts, rows_page, run, table, write_results
from turns import Timing, command_of, measured, milliseconds, ratio, timing_arguments

import quantkit
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.data.batches import batches
from quantkit.data.samples import take
from quantkit.data.sources import load_data
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.ptq_config import PresetName

_PRESETS: tuple[PresetName, ...] = ("none", "balanced", "best")
_COLUMNS = (
    "network", "batch", "rounds", "preset none, ms", *(f"{preset}, times that" for preset in _PRESETS[1:]),
)  # fmt: skip


def main() -> None:
    """Measure every network named on the command line."""
    options = timing_arguments(__doc__, rounds=15, runs=20).parse_args()
    root = data_root()
    suite = tomllib.loads(Path(__file__).with_name("trained.toml").read_text())
    found: list[Timing] = []
    print("\n".join(table(_COLUMNS)), flush=True)
    for network in suite["network"]:
        if not options.network or any(part in network["model"] for part in options.network):
            for timing in _timings(network, suite, root, options.rounds, options.runs):
                found.append(timing)
                print(_line(timing), flush=True)
    if options.out is not None:
        command = command_of("recovered_speed", options)
        write_results(options.out, command, host_facts(), {"cells": [asdict(timing) for timing in found]}, page)


def page(document: Document) -> str:
    """The page of a run's JSON."""
    return rows_page(document, _COLUMNS, (_line(Timing(**each)) for each in document["cells"]))


def _timings(
    network: Mapping[str, str], suite: Mapping[str, Mapping], root: Path, rounds: int, runs: int
) -> Iterator[Timing]:
    model = prepared_model(network, suite, root)
    data = suite["data"][network["data"]]
    count = max(data["calibration_samples"])
    chosen = take(load_data(str(root / data["calibration"])), count)
    source = quantkit.fuse(model, chosen)
    table = quantkit.calibrate(source, chosen, count)
    planned = quantkit.plan(source, table)
    graphs: dict[str, Graph] = {}
    for preset in _PRESETS:
        adjusted = quantkit.apply_algorithms(source, table, planned, chosen, preset)
        graphs[preset] = int8_graph(adjusted.network)
    image = next(batches(chosen, model.preprocess, model.input_shape, 1)).data
    for batch in (1, 16):
        data = np.repeat(image, batch, axis=0)
        forms = {preset: partial(_loaded, graph, data) for preset, graph in graphs.items()}
        yield Timing(model.name, batch, measured(forms, rounds, runs))


def _loaded(graph: Graph, data: np.ndarray) -> Callable[[], object]:
    inputs = dict.fromkeys(graph.inputs, data)
    return partial(MxnetSession(graph, dict.fromkeys(graph.inputs, data.shape)).run, inputs)


def _line(timing: Timing) -> str:
    ticks = timing.ticks
    cells = [timing.network, str(timing.batch), str(len(ticks["none"])), milliseconds(ticks, "none")]
    return "| " + " | ".join([*cells, *(ratio(ticks, preset, "none") for preset in _PRESETS[1:])]) + " |"


if __name__ == "__main__":
    run(main)
