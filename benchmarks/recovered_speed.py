"""Whether recovery costs speed: latency of INT8 networks recovered by a preset beside the same without recovery.

    QUANTKIT_REAL_DATA=DATA python benchmarks/recovered_speed.py --out benchmarks/results/recovered-speed

The networks are those of accuracy.toml. In each round every form gets a fresh executor, in random order, and all take
turns. A round's ratio is that of its medians; what is printed is the geometric mean over rounds with a 95 % percentile
bootstrap interval over rounds (Efron 1979). OUT.json has every reading, in ms.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from accuracy_rows import prepared_model
from command_line import data_root, run

from quantkit import pipeline
from quantkit.data.batches import batches
from quantkit.data.samples import take
from quantkit.data.sources import open_samples
from quantkit.emission.mxnet_int8 import int8_graph
from quantkit.engine.compat import load_mxnet
from quantkit.engine.execute import Executor
from quantkit.files import writing
from quantkit.graph.graph import Graph
from quantkit.host.cpu import read_cpu

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_PRESETS = ("none", "balanced", "best")
_WARM_UP = 3


@dataclass(frozen=True)
class Timing:
    """The readings of one network at one batch size, in ms: by preset, round, and run."""

    network: str
    batch: int
    ticks: Mapping[str, list[list[float]]]

    def ratios(self, preset: str) -> np.ndarray:
        """The median latency of a preset over that without recovery, of each round."""
        return np.array([median(one) / median(none) for one, none in zip(self.ticks[preset], self.ticks["none"])])


def main() -> None:
    """Measure every network named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write OUT.md and OUT.json")
    parser.add_argument("--network", action="append", help="only networks whose name contains this")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=20, help="of each form in a round")
    options = parser.parse_args()
    root = data_root()
    suite = tomllib.loads(Path(__file__).with_name("accuracy.toml").read_text())
    found: list[Timing] = []
    print("\n".join(_header()), flush=True)
    for network in suite["network"]:
        if not options.network or any(part in network["checkpoint"] for part in options.network):
            for timing in _timings(network, suite, root, options.rounds, options.runs):
                found.append(timing)
                print(_line(timing), flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        host = {"cpu": read_cpu().model, "mxnet": load_mxnet().__version__, "python": platform.python_version()}
        host["threads"] = os.environ.get("OMP_NUM_THREADS", "all")
        document = {"host": host, "cells": [asdict(timing) for timing in found]}
        with writing(options.out.with_name(f"{options.out.name}.json")) as file:
            file.write((json.dumps(document) + "\n").encode())
        with writing(options.out.with_name(f"{options.out.name}.md")) as file:
            lines = [", ".join(f"{key} {value}" for key, value in host.items()), "", *_header(), *map(_line, found)]
            file.write(("\n".join(lines) + "\n").encode())


def _timings(
    network: Mapping[str, str], suite: Mapping[str, Mapping], root: Path, rounds: int, runs: int
) -> Iterator[Timing]:
    model = prepared_model(network, suite, root)
    data = suite["data"][network["data"]]
    count = max(data["calibration_samples"])
    chosen = take(open_samples(str(root / data["calibration"])), count)
    source = pipeline.fuse_model(model, chosen)
    table = pipeline.calibrate(source, chosen, count)
    planned = pipeline.plan(source, table)
    graphs = {}
    for preset in _PRESETS:
        recovered = pipeline.recover(source, table, planned, chosen, preset)
        graphs[preset] = int8_graph(recovered.graph, recovered.plan)
    image = next(batches(chosen, model.preprocess, model.input_shape, 1)).data
    for batch in (1, 16):
        turns = [_round(graphs, np.repeat(image, batch, axis=0), runs, seed) for seed in range(rounds)]
        yield Timing(model.name, batch, {preset: [turn[preset] for turn in turns] for preset in _PRESETS})


def _round(graphs: Mapping[str, Graph], data: np.ndarray, runs: int, seed: int) -> dict[str, list[float]]:
    shuffled = random.Random(seed)
    order = shuffled.sample(list(graphs), len(graphs))
    executors = {name: Executor(graphs[name], dict.fromkeys(graphs[name].inputs, data.shape)) for name in order}
    ticks: dict[str, list[float]] = {name: [] for name in graphs}
    for number in range(_WARM_UP + runs):
        for name in shuffled.sample(order, len(order)):
            inputs = dict.fromkeys(graphs[name].inputs, data)
            begin = perf_counter()
            executors[name].run(inputs)
            if number >= _WARM_UP:
                ticks[name].append((perf_counter() - begin) * 1e3)
    return ticks


def _header() -> list[str]:
    others = [f"{preset}, times that" for preset in _PRESETS[1:]]
    cells = ["network", "batch", "rounds", "without recovery, ms", *others]
    return [f"| {' | '.join(cells)} |", "|---" * len(cells) + "|"]


def _line(timing: Timing) -> str:
    none = timing.ticks["none"]
    cells = [timing.network, str(timing.batch), str(len(none)), f"{median(median(one) for one in none):.3f}"]
    return "| " + " | ".join([*cells, *(_ratio(timing.ratios(preset)) for preset in _PRESETS[1:])]) + " |"


def _ratio(ratios: np.ndarray) -> str:
    from scipy.stats import bootstrap

    logarithms = np.log(ratios)
    interval = bootstrap((logarithms,), np.mean, method="percentile", random_state=0).confidence_interval
    low, value, high = np.exp([interval.low, logarithms.mean(), interval.high])
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    run(main)
