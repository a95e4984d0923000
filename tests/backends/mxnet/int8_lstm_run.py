"""Quantize a small bidirectional LSTM with a dense layer, run it in the engine and in the simulator, and compare.

    int8_lstm_run KIND FEATURES PRESET

KIND is what the first layer reads: ``signed`` or ``unsigned`` values or ``tokens``. With ``states`` the layers begin at
states that follow from the first step, and their final states are outputs besides. With ``late`` the process computes
with VNNI first, and the reasons of the plan are printed.
"""

from __future__ import annotations

import json
import sys
from typing import cast

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph
from quantkit.calibration.collect import collect_ranges
from quantkit.calibration.ranges import Range
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.float_symbol import float_graph
from quantkit.fusion.fuse import fuse
from quantkit.ir.graph import Graph, Node
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.progress import silent
from quantkit.quantization.algorithms.apply import apply_algorithms
from quantkit.quantization.planning import calibration_targets, make_plan
from quantkit.quantization.ptq_config import PresetName, preset
from quantkit.quantization.quantized_graph import QuantizedGraph, check_quantized
from quantkit.quantization.simulation.simulator import SideBySide, int8_network
from tests.initial_states import begun_network
from tests.networks import DATA, Builder

BATCH, STEPS, TOKENS = 4, 9, 13
SCORES = {"num_hidden": str(TOKENS), "flatten": "False"}


def network(kind: str, stack: Recurrent) -> Graph:
    b = Builder()
    stream = DATA
    if kind == "tokens":
        table = b.param("table", b.random.normal(size=(TOKENS, stack.inputs)))
        stream = b.op("Embedding", "embedding", stream, table, input_dim=TOKENS, output_dim=stack.inputs)
    if kind == "states":
        begun = begun_network(stack, outputs=(0, 1, 2))
        weight = b.param("weight", b.random.normal(size=(TOKENS, 2 * stack.hidden)))
        scores = Node("scores", "FullyConnected", (begun.outputs[0], weight), SCORES | {"no_bias": "True"})
        outputs = (scores.output, *begun.outputs[1:])
        return Graph((*begun.nodes, scores), ("data",), outputs, {**begun.params, **b.params})
    swapped = b.op("SwapAxis", "swap", stream, dim1=0, dim2=1)
    states = [b.op("_zeros", name, shape=(4, 0, stack.hidden)) for name in ("state", "cell")]
    (flat,) = recurrent_graph(stack).params.values()
    rnn = b.op("RNN", "rnn", swapped, b.param("flat", 2 * flat), *states, mode="lstm", num_layers=2,
               state_size=stack.hidden, bidirectional=True)  # fmt: skip
    back = b.op("SwapAxis", "back", rnn, dim1=0, dim2=1)
    # Wide enough that sums of two products overflow 16 bits with weights of all 8 bits.
    weight, bias = b.random.normal(size=(TOKENS, 2 * stack.hidden)), b.random.normal(size=TOKENS)
    scores = b.op("FullyConnected", "scores", back, b.param("weight", weight), b.param("bias", bias),
                  num_hidden=TOKENS, flatten=False)  # fmt: skip
    return Graph(tuple(b.nodes), ("data",), (scores,), b.params)


def decibels(values: np.ndarray, wanted: np.ndarray) -> float:
    noise = float(((values.astype(np.float64) - wanted) ** 2).sum())
    return 200.0 if noise == 0 else float(10 * np.log10((wanted.astype(np.float64) ** 2).sum() / noise))


def main(kind: str, features: int, algorithms: PresetName) -> None:
    if kind == "late":
        # The engine chooses its instructions here.
        b = Builder()
        first = b.dense("dense", DATA, 4, 4)
        run(b.graph(first), {"data": np.ones((1, 4), np.float32)})
    random = np.random.default_rng(0)
    data = (
        random.integers(0, TOKENS, (BATCH, STEPS)) if kind == "tokens" else random.normal(size=(BATCH, STEPS, features))
    )
    inputs = np.abs(data).astype(np.float32) if kind == "unsigned" else data.astype(np.float32)
    stack = Recurrent(layers=2, bidirectional=True, steps=STEPS, inputs=features, hidden=7)
    fused = fuse(network(kind, stack), inputs.shape[1:])
    floats = float_graph(fused.graph)
    measured = collect_ranges(floats, calibration_targets(fused.graph), [inputs], BATCH, "minmax")
    # The largest value of a range lies between two integers: there engine and simulator may round apart.
    exclude = ["*_sums"] if kind == "states" else []
    ranges = {name: Range(1.01 * each.low, 1.01 * each.high) for name, each in measured.items()}
    quantized = QuantizedGraph(
        fused.graph, make_plan(fused, CalibrationTable("minmax", BATCH, "x", ranges, "", ""), exclude)
    )
    check_quantized(quantized)
    if kind == "late":
        reasons = [each.reason for each in quantized.plan.decisions.values() if each.operator == "LSTM"]
        print(json.dumps({"reasons": reasons}))
        return
    quantized = apply_algorithms(quantized, fused.original, [inputs], "minmax", preset(algorithms), silent).network
    engine, exact = (run(graph, {"data": inputs}) for graph in (int8_graph(quantized), floats))
    both = SideBySide(fused.graph, int8_network(quantized), inputs)
    for _ in both.run():
        pass
    simulated = [both.quantized[output] for output in fused.graph.outputs]
    result = {
        "lstm": len(quantized.int8_lstms),
        "dense": len(quantized.int8_layers),
        "rounded_jointly": sum(node.name in quantized.weight_scales for node in quantized.int8_weighted),
        "engine_to_simulator": min(map(decibels, engine, simulated)),
        "int8_to_fp32": min(map(decibels, engine, exact)),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), cast(PresetName, sys.argv[3]))
