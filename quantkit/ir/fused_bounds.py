"""Whether a fused operator's attributes and inputs agree with the network inside, which MXNet relies on unchecked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

from quantkit.ir.attribute_bounds import is_true
from quantkit.ir.operators import ADDITIONS

_CORES = {"_sg_mkldnn_conv": "Convolution", "_sg_mkldnn_fully_connected": "FullyConnected"}


def fused_problem(
    op: str, attrs: Mapping[str, str], inputs: int, inside: Sequence[tuple[str, int]], variables: int
) -> Optional[str]:
    """Why a fused operator is inconsistent; None if it is consistent.

    Args:
        op: its name.
        attrs: its attributes.
        inputs: how many it has.
        inside: operator and number of inputs of each node inside.
        variables: how many the network inside has.
    """
    cores = [count for name, count in inside if name == _CORES[op]]
    if len(cores) != 1:
        return f"has {len(cores)} {_CORES[op]} inside instead of one"
    with_norm, with_sum = is_true(attrs, "with_bn"), is_true(attrs, "with_sum")
    if with_norm != any(name == "BatchNorm" for name, _ in inside):
        return "has with_bn where no batch normalization is inside, or the other way round"
    activations = sum(name not in {_CORES[op], "BatchNorm", *ADDITIONS} for name, _ in inside)
    if activations < sum(is_true(attrs, key) for key in ("with_act", "with_postsum_act", "with_eltwise")):
        return "has an activation by its attributes and none inside"
    wanted = cores[0] + 4 * with_norm + with_sum
    if variables != wanted:
        return f"has {variables} variables inside instead of {wanted}"
    if op == "_sg_mkldnn_conv":
        # The ranges of the input and of the addend.
        wanted += 2 + 2 * with_sum if is_true(attrs, "quantized") else 0
        if inputs != wanted:
            return f"has {inputs} inputs instead of {wanted}"
    return None
