"""Whether forms of a network compute the same, and whether INT8 is as near to FP32 as its arithmetic lets expect."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.fusion.numeric_check import relative_difference
from quantkit.ir.graph import Graph, Tensor
from tests.quantization.algorithms.networks import planned, simulated
from tests.random_graphs import Network


def rounding(network: Network, wanted: list[np.ndarray]) -> list[float]:
    """What rounding may change of each output, relative: 1e-5, or 8 times what a millionth of the input does."""
    signs = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), network.data.shape)
    noisy = run(network.graph, {"data": network.data * (1 + np.float32(2**-20) * signs)})
    return [max(1e-5, 8 * relative_difference(a, b)) for a, b in zip(wanted, noisy)]


def close(network: Network, graph: Graph, name: str = "data") -> None:
    """Check that another form of the network computes the same."""
    wanted = run(network.graph, {"data": network.data})
    found = run(graph, {name: network.data})
    assert len(found) == len(wanted)
    for tensor, a, b, allowed in zip(network.graph.outputs, wanted, found, rounding(network, wanted)):
        assert a.shape == b.shape, str(tensor)
        assert relative_difference(a, b) <= allowed, str(tensor)


def error(wanted: np.ndarray, found: np.ndarray) -> float:
    """The root mean square of what is wrong, as a share of the largest value."""
    scale = float(np.abs(wanted).max()) or 1.0
    return float(np.sqrt(np.square(wanted.astype(np.float64) - found).mean())) / scale


def as_near_as_simulated(network: Network, outputs: Sequence[np.ndarray], allowance: float) -> None:
    """Check that INT8 outputs are as near to FP32's as integer arithmetic lets expect.

    The simulation rounds where the plan says so. A value on the edge between two integers may fall either way, and all
    that follows from it: that is what ``allowance`` times the simulation's own error is for, and the 1/127 of a step.
    """
    fused, plan = planned(network.graph, network.data)
    expected = run(network.graph, {"data": network.data})
    tensors = simulated(fused.graph, plan, network.data, {})
    for tensor, wanted, found in zip(fused.graph.outputs, expected, outputs):
        assert found.shape == wanted.shape, str(tensor)
        assert np.isfinite(found).all(), str(tensor)
        simulation = tensors.get(tensor, network.data if tensor == Tensor("data") else None)
        assert simulation is not None, str(tensor)
        assert error(wanted, found) <= allowance * error(wanted, simulation) + 1 / 127, str(tensor)
