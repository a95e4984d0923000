"""Small networks that read sequences, and what they compute by definition."""

from __future__ import annotations

from typing import Literal, Optional

import numpy as np

from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import recurrent_graph
from quantkit.ir.graph import Graph, Tensor
from tests.networks import DATA, Builder
from tests.recurrent import outputs

STACK = Recurrent(layers=2, steps=6, inputs=5, hidden=8)
STEPS, FEATURES, TOKENS = STACK.steps, STACK.inputs, 11

Layout = Literal["NTC", "NT", "TNC", "TN"]
States = Literal["inputs", "open", "fixed", "ones"]
Merged = Optional[Literal["steps first", "batch first"]]

_FLAT = recurrent_graph(STACK).params["rnn_parameters"]


def sequence_network(
    layout: Layout, states: States = "open", merged: Merged = None, final_states: bool = False
) -> Graph:
    """An embedding (for tokens), two LSTM layers, and scores of ``TOKENS`` classes at every step.

    Args:
        layout: of input and outputs.
        states: the LSTM's initial states are inputs, zeros of an open batch, zeros for a batch of 4, or ones of an
            open batch, with which layers are not batch first.
        merged: whether the scores have steps and batch in one axis, and which of both comes first.
        final_states: whether state and cell after the last step are outputs, too.
    """
    b = Builder()
    stream = DATA
    if "C" not in layout:
        table = b.param("table", b.random.normal(size=(TOKENS, FEATURES)))
        stream = b.op("Embedding", "embedding", stream, table, input_dim=TOKENS, output_dim=FEATURES)
    if layout.startswith("N"):
        stream = b.op("SwapAxis", "swap", stream, dim1=0, dim2=1)
    batch = 4 if states == "fixed" else 0
    shape = (STACK.layers, batch, STACK.hidden)
    initial = [Tensor("state"), Tensor("cell")]
    if states != "inputs":
        initial = [b.op("_ones" if states == "ones" else "_zeros", each.node, shape=shape) for each in initial]
    stream = b.op(
        "RNN", "lstm", stream, b.param("parameters", _FLAT), *initial, mode="lstm", num_layers=STACK.layers,
        state_size=STACK.hidden, state_outputs=True,
    )  # fmt: skip
    if layout.startswith("N") != (merged == "steps first"):
        stream = b.op("SwapAxis", "swap_back", stream, dim1=0, dim2=1)
    if merged:
        stream = b.op("Reshape", "merge", stream, shape=(-1, STACK.hidden))
    weight = b.param("dense_weight", b.random.normal(size=(TOKENS, STACK.hidden)))
    bias = b.param("dense_bias", b.random.normal(size=TOKENS))
    scores = b.op("FullyConnected", "dense", stream, weight, bias, num_hidden=TOKENS, flatten=False)
    inputs = ("data", "state", "cell") if states == "inputs" else ("data",)
    ends = (scores, Tensor("lstm", 1), Tensor("lstm", 2)) if final_states else (scores,)
    return Graph(tuple(b.nodes), inputs, ends, b.params)


def sequences(count: int, tokens: bool, seed: int = 5) -> np.ndarray:
    """Input, batches first: token ids, int64 (count, steps), or float32 (count, steps, features)."""
    random = np.random.default_rng(seed)
    if tokens:
        return random.integers(0, TOKENS, (count, STEPS))
    return random.normal(size=(count, STEPS, FEATURES)).astype(np.float32)


def expected_scores(graph: Graph, data: np.ndarray) -> np.ndarray:
    """The scores of a ``sequence_network`` for ``sequences``, float64 of shape (count, steps, tokens)."""
    stream = graph.params["table"][data] if "table" in graph.params else data
    hidden = outputs(STACK, graph.params["parameters"], stream.transpose(1, 0, 2))
    return (hidden @ graph.params["dense_weight"].T + graph.params["dense_bias"]).transpose(1, 0, 2)
