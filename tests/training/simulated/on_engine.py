"""Training graphs on the engine: what they compute, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quantkit.backends.mxnet.calls import stock_fusion_off
from quantkit.backends.mxnet.compat import load_mxnet
from quantkit.backends.mxnet.symbols import auxiliary_params, symbol_of
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.names import Names
from quantkit.training.simulated.graph_draft import GraphDraft


def trained(
    graph: Graph, data: np.ndarray, output_gradients: Sequence[np.ndarray] = ()
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The outputs of a run in training, and the gradients of parameters and input, those of the outputs being given."""
    mxnet = load_mxnet()
    auxiliary = auxiliary_params(graph)
    given = {**graph.params, **dict.fromkeys(graph.inputs, data)}
    arrays = {name: mxnet.nd.array(value, dtype=value.dtype) for name, value in given.items()}
    states = {name: arrays.pop(name) for name in auxiliary}
    gradients = {name: mxnet.nd.zeros(value.shape, dtype=value.dtype) for name, value in arrays.items()}
    with stock_fusion_off():
        executor = symbol_of(graph).bind(
            mxnet.cpu(), args=arrays, args_grad=gradients, grad_req="write", aux_states=states
        )
        outputs = [output.asnumpy() for output in executor.forward(is_train=True)]
        if output_gradients:
            executor.backward([mxnet.nd.array(each, dtype=each.dtype) for each in output_gradients])
    return outputs, {name: value.asnumpy() for name, value in gradients.items()}


def draft(**params: np.ndarray) -> GraphDraft:
    """A draft with these parameters."""
    return GraphDraft(Names(params), params=dict(params))


def run_draft(made: GraphDraft, outputs: Sequence[Tensor], *output_gradients: np.ndarray) -> Any:
    """What the operators of a draft compute in training, and the gradients of its parameters."""
    return trained(Graph(tuple(made.nodes), (), tuple(outputs), made.params), np.empty(0), output_gradients)
