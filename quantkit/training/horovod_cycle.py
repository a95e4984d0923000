"""How often Horovod's threads compare which gradients are ready."""

from __future__ import annotations

import math
import os

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.ir.macs import macs
from quantkit.models.model import Model

_VARIABLE = "HOROVOD_CYCLE_TIME"

# Milliseconds of a core that a comparison takes: with one every 5 ms, Horovod's thread had 2 to 4 % of a core.
_COMPARISON = 0.1

# Multiply-accumulates of one thread in a millisecond of training, as measured from MobileNet to ResNet-50; gradients
# take twice those of the scores.
_MACS, _PASSES = 30e6, 3


def set_cycle(model: Model, samples: int, threads: int) -> None:
    """Set the time between two comparisons, unless it is set already; Horovod reads it when it starts.

    For the arguments see ``cycle_milliseconds``.
    """
    os.environ.setdefault(_VARIABLE, f"{cycle_milliseconds(model, samples, threads):.1f}")


def cycle_milliseconds(model: Model, samples: int, threads: int) -> float:
    """The time between two comparisons that costs a step least, in milliseconds, from 1 to 50.

    A comparison takes a core for a time a, so that a step of length s loses a s / c to cycles of c, and the last
    gradients wait for the next comparison, for up to c: the sum is least at c = sqrt(a s). A step's length is estimated
    from its multiply-accumulates; with one that is wrong by a factor of 4 the sum grows by a quarter.

    Args:
        model: the network that is trained.
        samples: how many of them an instance takes in a step.
        threads: how many threads of the engine it has.
    """
    graph = model.graph
    work = sum(macs(graph, infer_shapes(graph, {graph.inputs[0]: (1, *model.input_shape)})).values())
    step = _PASSES * work * samples / (_MACS * threads)
    return min(50.0, max(1.0, math.sqrt(_COMPARISON * step)))
