"""Fusing a network: every rewrite, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.errors import EngineError
from quantkit.fusion.rewriting.rule import Applied, Rejection, Rule, Shapes, apply_rule
from quantkit.fusion.rules.activation import ACTIVATION
from quantkit.fusion.rules.batch_norm import BATCH_NORM_AS_CONVOLUTION, FOLD_BATCH_NORM
from quantkit.fusion.rules.dense_last_axis import DENSE_OVER_ROWS
from quantkit.fusion.rules.dense_of_one_pixel import DENSE_OF_ONE_PIXEL
from quantkit.fusion.rules.dense_rows import ACTIVATION_OVER_ROWS, DROP_ROWS_AGAIN, READ_AS_ROWS
from quantkit.fusion.rules.drop_identity import DROP_IDENTITY
from quantkit.fusion.rules.pointwise_dense import POINTWISE_DENSE
from quantkit.fusion.rules.pool_before_concat import POOL_BEFORE_CONCAT
from quantkit.fusion.rules.recurrent import DROP_DOUBLE_SWAP, RECURRENT_BATCH_FIRST, RECURRENT_ONE_BY_ONE
from quantkit.fusion.rules.recurrent_cells import RECURRENT_CELLS
from quantkit.fusion.rules.recurrent_parameters import RECURRENT_PARAMETERS
from quantkit.fusion.rules.residual_sum import RESIDUAL_SUM
from quantkit.fusion.rules.stacked_steps import DROP_SPLIT_AND_STACK
from quantkit.fusion.rules.transposed_convolution import (
    ACTIVATION_OF_SUBPIXELS,
    FOLD_INTO_TRANSPOSED,
    TRANSPOSED_CONVOLUTION,
)
from quantkit.ir.graph import Graph, Tensor
from quantkit.ir.operators import flag

# In this order: a layer takes in its batch normalization, then a sum, then an activation.
RULES: tuple[Rule, ...] = (
    DROP_IDENTITY,
    POOL_BEFORE_CONCAT,
    RECURRENT_CELLS,
    DROP_SPLIT_AND_STACK,
    FOLD_BATCH_NORM,
    FOLD_INTO_TRANSPOSED,
    BATCH_NORM_AS_CONVOLUTION,
    TRANSPOSED_CONVOLUTION,
    ACTIVATION_OF_SUBPIXELS,
    POINTWISE_DENSE,
    RECURRENT_PARAMETERS,
    RECURRENT_BATCH_FIRST,
    DENSE_OVER_ROWS,
    ACTIVATION_OVER_ROWS,
    DROP_ROWS_AGAIN,
    READ_AS_ROWS,
    DROP_DOUBLE_SWAP,
    RECURRENT_ONE_BY_ONE,
    DENSE_OF_ONE_PIXEL,
    RESIDUAL_SUM,
    ACTIVATION,
)


@dataclass(frozen=True, eq=False)
class Fused:
    """A fused network, the original network, and what each rule applied or rejected.

    Node names of ``graph`` are names of the original's tensors, so calibration ranges and reports use names that the
    user knows, but for those of operators that rules put before such. ``shapes`` are those of the original's tensors
    for a batch of 1.
    """

    original: Graph
    graph: Graph
    shapes: Mapping[Tensor, tuple[int, ...]] = field(repr=False)
    applied: tuple[Applied, ...] = field(repr=False)
    rejected: tuple[Rejection, ...] = field(repr=False)


def fuse(graph: Graph, input_shape: Sequence[int], rules: Sequence[Rule] = RULES) -> Fused:
    """Rewrite a network with one image input of shape ``input_shape`` (channels, height, width).

    The result is not checked numerically; ``numeric_check.check_fusion`` does that, on real input.

    Raises:
        EngineError: the network does not accept the shape.
    """
    original = graph
    shapes = infer_shapes(graph, dict.fromkeys(graph.inputs, (1, *input_shape)))
    batch_axes = _batch_axes(graph, input_shape, shapes)
    applied: list[Applied] = []
    rejected: list[Rejection] = []
    for rule in rules:
        graph, done, not_done = apply_rule(graph, rule, shapes, batch_axes)
        applied.extend(done)
        rejected.extend(not_done)
    return Fused(original, graph, shapes, tuple(applied), tuple(rejected))


def _batch_axes(graph: Graph, input_shape: Sequence[int], shapes: Shapes) -> Mapping[Tensor, tuple[int, ...]]:
    """The axes that grow with the batch; nothing where no rule asks, or the network is made for a batch of 1."""
    if all(flag(node, "flatten", default=True) for node in graph.nodes if node.op == "FullyConnected"):
        return {}
    try:
        larger = infer_shapes(graph, dict.fromkeys(graph.inputs, (2, *input_shape)))
    except EngineError:
        return {}
    return {
        tensor: tuple(axis for axis, size in enumerate(shape) if size != larger[tensor][axis])
        for tensor, shape in shapes.items()
    }
