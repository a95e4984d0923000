from __future__ import annotations

import numpy as np
import pytest

from quantkit.backends.mxnet.execute import run
from quantkit.benchmark.suites.suite import Lstm
from quantkit.benchmark.workloads.lstm import INPUT, lstm_graph, lstm_macs, sequences

TOY = Lstm(layers=3, steps=4, inputs=5, hidden=6)


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def plain_lstm(lstm: Lstm, flat: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, int]:
    """The layers step by step, by their definition; and the multiply-accumulates of one sequence."""
    rest, macs = flat.astype(np.float64), 0
    widths = [lstm.inputs, *[lstm.hidden] * (lstm.layers - 1)]
    rows = 4 * lstm.hidden

    def taken(*shape: int) -> np.ndarray:
        nonlocal rest
        count = int(np.prod(shape))
        found, rest = rest[:count].reshape(shape), rest[count:]
        return found

    weights = [(taken(rows, width), taken(rows, lstm.hidden)) for width in widths]
    biases = [(taken(rows), taken(rows)) for _ in widths]
    assert rest.size == 0
    stream = data.astype(np.float64)
    for (of_input, of_state), (first, second) in zip(weights, biases):
        state = cell = np.zeros((data.shape[1], lstm.hidden))
        outputs = []
        for step in stream:
            gates = step @ of_input.T + first + state @ of_state.T + second
            macs += of_input.size + of_state.size
            enter, forget, new, leave = np.split(gates, 4, axis=1)
            cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(new)
            state = sigmoid(leave) * np.tanh(cell)
            outputs.append(state)
        stream = np.stack(outputs)
    return stream, macs


@pytest.mark.parametrize("batch", [1, 3])
def test_the_engine_computes_the_layers_at_any_batch_size(engine: None, batch: int) -> None:
    graph = lstm_graph(TOY)
    data = sequences(TOY, batch)
    assert data.shape == (4, batch, 5)
    (flat,) = graph.params.values()
    expected, macs = plain_lstm(TOY, flat, data)
    (found,) = run(graph, {INPUT: data})
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert lstm_macs(TOY) == macs


def test_weights_are_seeded_and_within_their_bounds() -> None:
    (one,), (same,), (other,) = (lstm_graph(TOY, seed).params.values() for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert 0.9 / np.sqrt(6) < np.abs(one).max() <= 1 / np.sqrt(6)


def test_a_smaller_batch_is_part_of_a_larger_one() -> None:
    np.testing.assert_array_equal(sequences(TOY, 2), sequences(TOY, 5)[:, :2])
