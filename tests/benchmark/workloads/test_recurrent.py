from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.benchmark.suites.suite import Recurrent
from quantkit.benchmark.workloads.recurrent import INPUT, recurrent_graph, recurrent_model, sequences
from quantkit.ir.macs import macs
from tests.recurrent import layers, outputs

TOY = Recurrent(layers=3, steps=4, inputs=5, hidden=6)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_the_engine_computes_the_layers_at_any_batch_size(
    engine: None, mode: Literal["lstm", "gru", "rnn_tanh", "rnn_relu"], bidirectional: bool, batch: int
) -> None:
    stack = replace(TOY, mode=mode, bidirectional=bidirectional)
    graph = recurrent_model("stack", stack).graph
    data = sequences(stack, batch)
    assert data.shape == (batch, 4, 5)
    (flat,) = graph.params.values()
    (given,) = run(graph, {INPUT: data})
    np.testing.assert_allclose(given.swapaxes(0, 1), outputs(stack, flat, data.swapaxes(0, 1)), atol=1e-6)
    matrices = [w for layer in layers(stack, flat) for each in layer for w in (each.of_input, each.of_state)]
    counted = macs(graph, infer_shapes(graph, {INPUT: (1, 4, 5)}))
    assert sum(counted.values()) == stack.steps * sum(matrix.size for matrix in matrices)


def test_weights_are_seeded_and_within_their_bounds() -> None:
    (one,), (same,), (other,) = (recurrent_graph(TOY, seed).params.values() for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert 0.9 / np.sqrt(6) < np.abs(one).max() <= 1 / np.sqrt(6)


def test_a_smaller_batch_is_part_of_a_larger_one() -> None:
    np.testing.assert_array_equal(sequences(TOY, 2), sequences(TOY, 5)[:2])
