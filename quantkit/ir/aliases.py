"""One canonical name for each operator: MXNet registers many under several names."""

from __future__ import annotations

from collections.abc import Mapping

_ALIASES = {
    "BlockGrad": "stop_gradient",
    "Cast": "cast",
    "Concat": "concat",
    "Flatten": "flatten",
    "Pad": "pad",
    "Reshape": "reshape",
    "SliceChannel": "split",
    "SoftmaxOutput": "Softmax",
    "SwapAxis": "swapaxes",
    "_contrib_box_nms": "_contrib_box_non_maximum_suppression",
    "_copy": "identity",
    "_linalg_gemm": "linalg_gemm",
    "_linalg_gemm2": "linalg_gemm2",
    "_linalg_syrk": "linalg_syrk",
    "_random_normal": "random_normal normal",
    "_random_uniform": "random_uniform uniform",
    "add_n": "ElementWiseSum",
    "broadcast_add": "broadcast_plus",
    "broadcast_axis": "broadcast_axes",
    "broadcast_sub": "broadcast_minus",
    "elemwise_add": "_add _plus _Plus",
    "elemwise_div": "_div _Div",
    "elemwise_mul": "_mul _Mul",
    "elemwise_sub": "_sub _minus _Minus",
    "max": "max_axis",
    "min": "min_axis",
    "reverse": "flip",
    "slice": "crop",
    "sum": "sum_axis",
    "_equal": "_Equal",
    "_greater": "_Greater",
    "_greater_equal": "_Greater_Equal",
    "_hypot": "_Hypot",
    "_lesser": "_Lesser",
    "_lesser_equal": "_Lesser_Equal",
    "_logical_and": "_Logical_And",
    "_logical_or": "_Logical_Or",
    "_logical_xor": "_Logical_Xor",
    "_maximum": "_Maximum",
    "_minimum": "_Minimum",
    "_mod": "_Mod",
    "_not_equal": "_Not_Equal",
    "_power": "_Power",
    "_div_scalar": "_DivScalar",
    "_equal_scalar": "_EqualScalar",
    "_greater_equal_scalar": "_GreaterEqualScalar",
    "_greater_scalar": "_GreaterScalar",
    "_hypot_scalar": "_HypotScalar",
    "_lesser_equal_scalar": "_LesserEqualScalar",
    "_lesser_scalar": "_LesserScalar",
    "_logical_and_scalar": "_LogicalAndScalar",
    "_logical_or_scalar": "_LogicalOrScalar",
    "_logical_xor_scalar": "_LogicalXorScalar",
    "_maximum_scalar": "_MaximumScalar",
    "_minimum_scalar": "_MinimumScalar",
    "_minus_scalar": "_MinusScalar",
    "_mod_scalar": "_ModScalar",
    "_mul_scalar": "_MulScalar",
    "_not_equal_scalar": "_NotEqualScalar",
    "_plus_scalar": "_PlusScalar",
    "_power_scalar": "_PowerScalar",
    "_rdiv_scalar": "_RDivScalar",
    "_rminus_scalar": "_RMinusScalar",
    "_rmod_scalar": "_RModScalar",
    "_rpower_scalar": "_RPowerScalar",
}

_ACROSS_DEVICES = frozenset({"ndev", "key"})

CANONICAL_NAMES: Mapping[str, str] = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}
"""MXNet's own name of each operator, by every other name that ``allowed_operators`` lists."""


def canonical(op: str, attrs: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    """An operator's canonical name, and its attributes under that name.

    MXNet has ``relu`` as a separate operator; it computes the same as ``Activation``. Normalization across devices is
    that of one device at inference.
    """
    if op == "relu":
        return "Activation", {**attrs, "act_type": "relu"}
    if op == "_contrib_SyncBatchNorm":
        return "BatchNorm", {key: value for key, value in attrs.items() if key not in _ACROSS_DEVICES}
    return CANONICAL_NAMES.get(op, op), attrs
