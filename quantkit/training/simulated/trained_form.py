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
        graph: computes what the training graph computes.
        names: those of its parameters that stand for others, by the others' names.
        original: the training graph.
        parameters: those that others stand for.
    """

    graph: Graph
    names: Mapping[str, str]
    original: Graph
    parameters: Mapping[str, TrainedParameter]

    def values(self, params: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The parameters of the training graph, from those of this one that are trained."""
        found = {name: params.get(name, value) for name, value in self.original.params.items()}
        for name, stands_for_it in self.names.items():
            old, parameter = self.original.params[name], self.parameters[name]
            new = params[stands_for_it] * _columns(parameter.units, old)
            if parameter.keeps_scale:
                largest, peak = _largest(old)
                new = np.where(largest, largest, np.clip(new, -peak, peak))
            found[name] = new
        return found


def trained_form(graph: Graph, parameters: Mapping[str, TrainedParameter]) -> TrainedForm:
    """A training graph with some of its parameters in the form in which they are trained.

    Args:
        graph: the training graph.
        parameters: weights and biases, by name.
    """
    draft, params = GraphDraft(Names(graph.names)), dict(graph.params)
    names: dict[str, str] = {}
    for name, parameter in parameters.items():
        value = params.pop(name)
        units = _columns(parameter.units, value)
        names[name] = draft.names.take(f"{name}_in_units")
        params[names[name]] = value / units
        unit = draft.add_constant(f"{name}_unit", units, _CONSTANT)
        trained = draft.op(f"{name}_trained", "broadcast_mul", Tensor(names[name]), unit)
        if parameter.keeps_scale:
            _keep_scale(draft, name, value, trained)
        # What reads the parameter remains as it is.
        draft.name_last(name)
    made = replace(graph, nodes=(*draft.nodes, *graph.nodes), params={**params, **draft.params})
    return TrainedForm(made, names, graph, parameters)


def _keep_scale(draft: GraphDraft, name: str, value: np.ndarray, trained: Tensor) -> None:
    largest, peak = _largest(value)
    high, low = (draft.add_constant(f"{name}_bound", bound, _CONSTANT) for bound in (peak, -peak))
    within = draft.op(f"{name}_low", "broadcast_minimum", trained, high)
    within = draft.op(f"{name}_within", "broadcast_maximum", within, low)
    # With the gradient of what is beyond, so that it can come back.
    within = with_gradient_of(draft, f"{name}_bounded", within, trained)
    fixed = draft.add_constant(f"{name}_largest", largest, _CONSTANT)
    draft.op(f"{name}_scaled", "where", fixed, fixed, within)


def _largest(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest weights of each channel, 0 elsewhere, and their magnitudes as a column."""
    peak = np.abs(weight).max(axis=tuple(range(1, weight.ndim)), keepdims=True)
    return np.where(np.abs(weight) == peak, weight, np.float32(0.0)), peak


def _columns(units: np.ndarray, value: np.ndarray) -> np.ndarray:
    return units.reshape(-1, *(1,) * (value.ndim - 1))
