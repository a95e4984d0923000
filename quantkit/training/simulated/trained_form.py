"""The form in which parameters are trained: in units of their channel's magnitude, and with the scale they have.

Optimizers whose updates have about the size of the rate, as those of Adam (Kingma and Ba, 2015, arXiv:1412.6980),
change each parameter by about the same share of its unit. Folded batch normalization leaves channels of very different
magnitudes in one layer, above all in depthwise convolutions, and a rate that suits one would destroy another. Units are
powers of two, so that values in them are exact.

The largest weight of each channel sets the scale of its integers. In the engine's convolutions it is 127.5 steps, and
the last digit of the weight decides between two integers (see ``weights.engine_integers``); as long as it is trained,
integers change at random. So it stays, and the others stay within it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from quantkit.backends.mxnet.execute import run
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.names import Names
from quantkit.training.simulated.graph_draft import GraphDraft
from quantkit.training.simulated.parameters import TrainedParameter
from quantkit.training.simulated.rounding import with_gradient_of

_CONSTANT = "it is a constant of the form in which parameters are trained"


@dataclass(frozen=True, eq=False)
class TrainedForm:
    """A training graph in whose form parameters are trained.

    Attributes:
        graph: computes what the original computes.
        in_units: the name of each parameter that is in units, by its own name.
        original: the training graph.
        own: computes the parameters of the training graph from those in units.
    """

    graph: Graph
    in_units: Mapping[str, str]
    original: Graph
    own: Graph

    def values(self, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The parameters of the training graph, from those of this one that are trained."""
        found = {name: params.get(name, value) for name, value in self.original.params.items()}
        if self.in_units:
            trained = {name: params[name] for name in self.in_units.values()}
            computed = run(replace(self.own, params={**self.own.params, **trained}), {})
            found.update(zip(self.in_units, computed))
        return found


def trained_form(graph: Graph, parameters: Mapping[str, TrainedParameter]) -> TrainedForm:
    """A training graph with some of its parameters in the form in which they are trained.

    Args:
        graph: the training graph.
        parameters: weights and biases, by name.
    """
    draft, others = GraphDraft(Names(graph.names)), dict(graph.params)
    in_units: dict[str, str] = {}
    for name, parameter in parameters.items():
        value = others.pop(name)
        units = parameter.units.reshape(-1, *(1,) * (value.ndim - 1))
        in_units[name] = draft.names.take(f"{name}_in_units")
        draft.params[in_units[name]] = value / units
        unit = draft.add_constant(f"{name}_unit", units, _CONSTANT)
        trained = draft.op(f"{name}_trained", "broadcast_mul", Tensor(in_units[name]), unit)
        if parameter.keeps_scale:
            _keep_scale(draft, name, value, trained)
        # What reads the parameter remains as it is.
        draft.name_last(name)
    own = Graph(tuple(draft.nodes), (), tuple(map(Tensor, in_units)), draft.params)
    made = replace(graph, nodes=(*draft.nodes, *graph.nodes), params={**others, **draft.params})
    return TrainedForm(made, in_units, graph, own)


def _keep_scale(draft: GraphDraft, name: str, value: np.ndarray, trained: Tensor) -> None:
    peak = np.abs(value).max(axis=tuple(range(1, value.ndim)), keepdims=True)
    high, low = (draft.add_constant(f"{name}_bound", bound, _CONSTANT) for bound in (peak, -peak))
    within = draft.op(f"{name}_at_most", "broadcast_minimum", trained, high)
    within = draft.op(f"{name}_within", "broadcast_maximum", within, low)
    # With the gradient of what is beyond, so that it can come back.
    within = with_gradient_of(draft, f"{name}_bounded", within, trained)
    largest = np.where(np.abs(value) == peak, value, np.float32(0.0))
    fixed = draft.add_constant(f"{name}_largest", largest, _CONSTANT)
    draft.op(f"{name}_scaled", "where", fixed, fixed, within)
