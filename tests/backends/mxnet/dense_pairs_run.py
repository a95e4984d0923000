"""Run MXNet's INT8 dense layer with hostile weights and data, and compare with exact sums.

    dense_pairs_run INPUTS BATCH LOWEST

The data lie between LOWEST, 0 or -1, and 1. Printed are the pairs of inputs whose products saturate together, the
largest deviation with weights of which no two neighbours may overflow, and that of a layer with all weights alike,
rounded in pairs and with all 8 bits.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import combinations

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.quantization.arithmetic import quantize
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.reduced_range import rounded_in_pairs
from quantkit.quantization.weights import per_channel_int8
from tests.networks import DATA, Builder
from tests.quantization.algorithms.networks import planned


def layer(inputs: int, units: int) -> Graph:
    b = Builder()
    return b.graph(b.dense("dense", DATA, inputs, units))


def deviation(integers: np.ndarray, data: np.ndarray, lowest: float) -> np.ndarray:
    """How far the engine's sums are from the exact ones, by row of the data and of the integers."""
    sample = np.full_like(data, lowest)
    sample[:, 0] = 1
    fused, plan = planned(layer(data.shape[1], len(integers)), sample)
    lowered = int8_graph(QuantizedGraph(fused.graph, plan))
    ones, zeros = (make((1, len(integers)), np.float32) for make in (np.ones, np.zeros))
    own = {"dense_weight_int8": integers, "dense_weight_scale": ones, "dense_bias_row": zeros}
    assert own.keys() <= lowered.params.keys()
    (result,) = run(replace(lowered, params={**lowered.params, **own}), {"data": data})
    params = plan.tensors[DATA].params
    exact = quantize(data, params).astype(np.int64) @ integers.T.astype(np.int64)
    return np.asarray(np.rint(result / np.float64(params.scale)) - exact)


def fitting(inputs: int) -> np.ndarray:
    """Weights of which no two neighbours overflow, most of them as large as they may be."""
    random = np.random.default_rng(0)
    first = random.integers(1, 128, (200, -(-inputs // 2)))
    pairs = np.stack([first, 128 - first], axis=2).reshape(200, -1)[:, :inputs] * random.choice([-1, 1], (200, 1))
    opposite = 127 * np.resize([1, -1], (2, inputs)) * [[1], [-1]]
    return np.concatenate([pairs, opposite, np.full((1, inputs), 64), np.full((1, inputs), -64)]).astype(np.int8)


def main(inputs: int, batch: int, lowest: float) -> None:
    highest = np.ones((batch, inputs), np.float32)
    pairs = list(combinations(range(inputs), 2))
    both = np.zeros((len(pairs), inputs), np.int8)
    for row, pair in zip(both, pairs):
        row[list(pair)] = 127
    saturating = deviation(both, highest, lowest).any(axis=0)
    # Of int8 not -128, where engine and simulator round apart.
    extremes = np.random.default_rng(1).choice([lowest * 127 / 127.5, 1], (batch, inputs)).astype(np.float32)
    extremes[0] = 1
    alike = np.full((3, inputs), 0.3, np.float32)
    rounded = {"bounded": rounded_in_pairs(alike)[0], "unbounded": per_channel_int8(alike)[0]}
    result = {
        "saturating": [pair for pair, lost in zip(pairs, saturating) if lost],
        "fitting": float(np.abs(deviation(fitting(inputs), extremes, lowest)).max()),
        **{name: float(np.abs(deviation(each, highest, lowest)).max()) for name, each in rounded.items()},
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
