"""Rounding to whole numbers, half to even, with the gradient of the identity, in MXNet's operators.

MXNet's ``round`` and ``_contrib_round_ste`` round halves away from zero, its ``rint`` rounds them down, where INT8
kernels and ``numpy.rint`` round them to the even neighbour. So does every addition of float32: a sum from 2^23 up to
2^24 is a whole number. The gradient of an addition is that of its operand, which makes this the straight-through
estimator of Bengio et al., "Estimating or propagating gradients through stochastic neurons for conditional computation"
(2013, arXiv:1308.3432).
"""

from __future__ import annotations

from quantkit.ir.graph import Tensor
from quantkit.training.simulated.graph_draft import GraphDraft

_SHIFTS = {"float32": 1.5 * 2.0**23, "float64": 1.5 * 2.0**52}


def half_even(draft: GraphDraft, name: str, values: Tensor, dtype: str = "float32") -> Tensor:
    """Values of magnitudes up to 2^22 rounded to whole numbers; larger ones may keep a half, or lose a last digit.

    Args:
        draft: where the operators are added.
        name: the name of the last.
        values: of type ``dtype``.
        dtype: float32 or float64.
    """
    shift = _SHIFTS[dtype]
    return draft.op(
        name, "_minus_scalar", draft.op(f"{name}_shifted", "_plus_scalar", values, scalar=shift), scalar=shift
    )


def saturated(draft: GraphDraft, name: str, values: Tensor, low: int, high: int) -> Tensor:
    """Values as the nearest whole numbers from ``low`` to ``high``; those beyond have no gradient."""
    clipped = draft.op(f"{name}_clipped", "clip", values, a_min=float(low), a_max=float(high))
    return half_even(draft, name, clipped)


def with_gradient_of(draft: GraphDraft, name: str, values: Tensor, approximation: Tensor) -> Tensor:
    """Values without a gradient of their own, to the last bit, with that of another finite tensor of the same shape."""
    zero = draft.op(f"{name}_zero", "elemwise_sub", approximation, draft.op(f"{name}_same", "BlockGrad", approximation))
    return draft.op(name, "elemwise_add", draft.op(f"{name}_fixed", "BlockGrad", values), zero)
