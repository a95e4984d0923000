"""The values that operators' attributes may have: MXNet trusts them, and some end the process or write past arrays.

The bounds lie far beyond what networks use. They come from running every operator of ``allowed_operators`` with
each of its attributes at zero, negative, huge and badly shaped values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Optional

from quantkit.ir.allowed_operators import FUSED, OPERATORS

MOST_RESIZED = (1 << 15) - 1
"""Pixels of the longest side that MXNet interpolates to."""

_LONGEST_VALUE = 1 << 16
_LARGEST_INTEGER = (1 << 31) - 1

_KEY = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
# Python 2 wrote long integers as 3L.
_INTEGER = re.compile(r"([-+]?\d+)L?", re.ASCII)
_DEVICE = re.compile(r"(cpu(_pinned|_shared)?\(\d\))?", re.ASCII)

# No allowed operator has these; in MXNet they hold pointers, or names of files, Python classes and libraries.
_FORBIDDEN = frozenset({"info", "filename", "path", "lib", "library", "op_type", "subgraph_backend"})

# These are floating-point numbers, which files often write without a fraction.
_FLOATS = frozenset({"scalar", "a_min", "a_max", "value", "fill_value", "start", "stop", "step", "high", "low"})

# The smallest and the largest integer that an attribute may hold, as a number or in a tuple.
_RANGES = {
    **dict.fromkeys(("stride", "dilate", "num_group", "num_groups", "num_deformable_group", "heads"), (1, 1 << 16)),
    **dict.fromkeys(("num_outputs", "state_size", "repeat", "reps", "im2col_step"), (1, 1 << 16)),
    **dict.fromkeys(("num_filter", "num_hidden", "input_dim", "output_dim"), (1, _LARGEST_INTEGER)),
    **dict.fromkeys(("kernel", "pad", "adj", "pooled_size", "h_w", "scale", "sample_ratio"), (0, 1 << 16)),
    # MXNet keeps these in 16 bits, which wrap around.
    **dict.fromkeys(("height", "width"), (0, MOST_RESIZED)),
    **dict.fromkeys(("sections", "coord_start"), (0, 1 << 10)),
    **dict.fromkeys(("block_size", "num_layers"), (1, 1 << 10)),
    "indices": (0, _LARGEST_INTEGER),
}

# Recurrent layers with a projection, even of size 0, write beyond their memory on CPUs.
_NO_INTEGER = frozenset({"projection_size"})


def attribute_problem(op: str, attrs: Mapping[str, str], inputs: int) -> Optional[str]:
    """Why an operator of ``inputs`` inputs may not have these attributes; None if it may."""
    for key, text in attrs.items():
        if not _KEY.fullmatch(key) or key in _FORBIDDEN or "subgraph" in key:
            return f"the attribute {key[:40]!r} is not allowed in a network from a file"
        if len(text) > _LONGEST_VALUE:
            return f"{key} has {len(text)} characters"
        if key == "ctx" and not _DEVICE.fullmatch(text):
            return f"ctx={text[:40]!r} is not a CPU, and quantkit runs networks on CPUs only"
        if problem := _number_problem(key, text):
            return problem
    # Each tensor of an INT8 concatenation comes with the two bounds of its range.
    tensors, left = divmod(inputs, 3 if op == "_contrib_quantized_concat" else 1)
    if "num_args" in attrs and (left or attrs["num_args"] != str(tensors)):
        return f"num_args={attrs['num_args'][:20]!r}, but it has {inputs} inputs"
    if op == "_contrib_quantized_act" and attrs.get("act_type") != "relu":
        return f"act_type={attrs.get('act_type', '')[:20]!r}, but MXNet's only activation for integers is ReLU"
    if op == "_contrib_quantized_batch_norm" and attrs.get("axis", "1") != "1":
        return f"axis={attrs['axis'][:20]!r}, but MXNet normalizes integers along the channels only"
    if op == "_contrib_quantized_pooling":
        if attrs.get("pool_type", "max") not in ("max", "avg"):
            return f"pool_type={attrs['pool_type'][:20]!r}, but MXNet pools integers by maximum or average only"
        if attrs.get("layout", "None") not in ("None", "NCHW", "NCDHW"):
            return f"layout={attrs['layout'][:20]!r}, but MXNet pools integers with the channels first only"
        sizes = {key: len(_integers(attrs.get(key, ""))) for key in ("kernel", "stride", "pad")}
        missing = "None" in (attrs.get("stride"), attrs.get("pad"))
        if sizes["kernel"] not in (2, 3) or not {sizes["stride"], sizes["pad"]} <= {0, sizes["kernel"]} or missing:
            return "it does not pool integers in two or three dimensions"
    if op == "_contrib_quantize_asym" and not _is_calibrated(attrs):
        return "it has no calibrated range, and MXNet needs one"
    if op == "_contrib_quantized_rnn":
        several = (is_true(attrs, key) for key in ("bidirectional", "use_sequence_length"))
        if attrs.get("mode") != "lstm" or attrs.get("num_layers") != "1" or any(several):
            return "it is not one LSTM layer in one direction, and MXNet computes no other one in integers"
    if op == "_arange" and not _is_countable(attrs):
        return "it would produce more values than can be counted"
    if op == "transpose":
        axes = _integers(attrs.get("axes", ""))
        if len(set(axes)) < len(axes):
            return f"axes={attrs['axes']!r} names an axis twice"
    if op == "_split_v2":
        sections, cuts = (_integers(attrs.get(key, "")) for key in ("sections", "indices"))
        if bool(cuts) == any(sections) or list(cuts) != sorted(set(cuts)):
            return "it splits neither into equal sections nor at ascending indices"
    return None


def _is_calibrated(attrs: Mapping[str, str]) -> bool:
    try:
        low, high = (float(attrs[f"{bound}_calib_range"]) for bound in ("min", "max"))
    except (KeyError, ValueError):
        return False
    return isfinite(low) and isfinite(high) and low < high


def output_count(op: str, attrs: Mapping[str, str]) -> int:
    """How many outputs of an operator others may read; its attributes must have no problem."""
    outputs = OPERATORS[op].outputs
    if isinstance(outputs, str):
        count = _integers(attrs.get(outputs, "0"))[:1]
        return count[0] if count and count[0] > 0 else len(_integers(attrs.get("indices", "")))
    if op in ("RNN", "_contrib_quantized_rnn"):
        states = 2 if attrs.get("mode") == "lstm" else 1
        return 1 + states if is_true(attrs, "state_outputs") else 1
    if op == "topk":
        return 2 if attrs.get("ret_typ") in ("both", "value") else 1
    if op in FUSED:
        return outputs if is_true(attrs, "quantized") and not is_true(attrs, "enable_float_output") else 1
    return outputs


def is_true(attrs: Mapping[str, str], key: str) -> bool:
    """Whether MXNet reads a boolean attribute as true."""
    return attrs.get(key, "").strip().lower() in ("true", "1")


def _is_countable(attrs: Mapping[str, str]) -> bool:
    """Whether the range from ``start`` to ``stop`` by ``step`` has fewer than 2^31 values."""
    defaults = {"start": "0", "stop": "0", "step": "1"}
    texts = (attrs.get(key, default).replace("None", default) for key, default in defaults.items())
    try:
        start, stop, step = map(float, texts)
    except ValueError:
        return False
    return step != 0 and abs(stop - start) / abs(step) <= _LARGEST_INTEGER


def _number_problem(key: str, text: str) -> Optional[str]:
    if key in _FLOATS:
        return None
    if key in _NO_INTEGER and _integers(text):
        return f"{key}={text[:40]!r} is not for CPUs"
    least, most = _RANGES.get(key, (-_LARGEST_INTEGER, _LARGEST_INTEGER))
    if any(not least <= number <= most for number in _integers(text)):
        return f"{key}={text[:40]!r} is not from {least} to {most}"
    return None


def _integers(text: str) -> tuple[int, ...]:
    """The integers in an attribute, a number or a tuple; those of more than 20 characters count as 2^64."""
    parts = (part.strip() for part in text.strip("()[] ").split(","))
    matches = (_INTEGER.fullmatch(part) for part in parts)
    # The time of a conversion grows with the square of the digits.
    return tuple(int(match[1]) if len(match[1]) <= 20 else 1 << 64 for match in matches if match)
