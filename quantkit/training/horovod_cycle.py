"""How often Horovod's threads negotiate which gradients are ready: its cycle time."""

from __future__ import annotations

import math

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.ir.macs import macs
from quantkit.models.model import Model

# Milliseconds by which a negotiation delays an instance of one core: from 0.08 with a small network to 0.35 with a
# large one, whose caches are emptied, by the throughput at several cycle times on Intel's Sapphire Rapids. It is small
# here since the steps of most networks are shorter than estimated: only the product of both counts.
_NEGOTIATION = 0.1

# Multiply-accumulates of one thread in a millisecond of training; gradients take twice those of the scores.
_MACS, _PASSES = 30e6, 3


def cycle_time(model: Model, samples: int, threads: int) -> float:
    """The cycle time that costs a step least, in milliseconds, from 1 to 50.

    A negotiation delays an instance by a, so that a step of length s loses a s / c to cycles of c, and its last
    gradients wait for the next negotiation, for about c: the sum is least at c = sqrt(a s). The length of a step is
    estimated from the multiply-accumulates of the network; that it takes a quarter of it, or four times as long, makes
    the loss a quarter larger.

    Args:
        model: the network that is trained.
        samples: how many of them an instance takes in a step.
        threads: how many threads of the engine it has.
    """
    graph = model.graph
    work = sum(macs(graph, infer_shapes(graph, {graph.inputs[0]: (1, *model.input_shape)})).values())
    step = _PASSES * work * samples / (_MACS * threads)
    return min(50.0, max(1.0, math.sqrt(_NEGOTIATION * step)))
