"""Whole networks with random damage: attributes, edges, operators, and the types and shapes of parameters."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from quantkit.formats.mxnet import nnvm
from quantkit.ir.allowed_operators import OPERATORS
from quantkit.ir.graph import Graph
from tests.backends.mxnet.crash_search.hostile_values import FILLS, TYPES

_VALUES = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "100",
    "65536",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "nan",
    "inf",
    "1e38",
    "None",
    "True",
    "False",
    "()",
    "(0, 0)",
    "(1, 1)",
    "(-1, -1)",
    "(3, 3)",
    "(7, 7)",
    "(65536, 1)",
    "(1,)",
    "(1, 1, 1)",
    "int8",
    "uint8",
    "int32",
    "float64",
    "auto",
    "max",
    "avg",
    "relu",
    "sigmoid",
    "NHWC",
    "full",
    "valid",
    "",
]
_KEYS = [
    "kernel",
    "stride",
    "pad",
    "dilate",
    "num_filter",
    "num_group",
    "no_bias",
    "layout",
    "pool_type",
    "global_pool",
    "axis",
    "eps",
    "num_hidden",
    "flatten",
    "act_type",
    "dim",
    "shape",
    "quantized",
    "with_sum",
    "with_act",
    "with_bn",
    "with_postsum_act",
    "min_calib_range",
    "max_calib_range",
    "out_type",
    "channel_wise_quantize",
    "with_eltwise",
    "enable_float_output",
    "sum",
    "scalar",
    "dtype",
    "num_args",
]


@dataclass(frozen=True)
class NetworkCase:
    """A damaged symbol, parameters by name, the input's shape without the batch axis, and what the input holds."""

    symbol: str
    params: Mapping[str, np.ndarray]
    input_shape: tuple[int, ...]
    fill: str
    damage: str


def damaged(graph: Graph, input_shape: tuple[int, ...], seed: int, count: int) -> Iterator[NetworkCase]:
    """So many damaged copies of a network."""
    text = nnvm.serialize(graph)
    for number in range(count):
        chance = random.Random(f"{seed} {number}")
        document, params = json.loads(text), dict(graph.params)
        told = [_damage(document, params, chance) for _ in range(chance.randint(1, 3))]
        fill = chance.choice(FILLS)
        yield NetworkCase(json.dumps(document), params, input_shape, fill, f"{number} {fill}: {'; '.join(told)}")


def _damage(document: dict[str, Any], params: dict[str, np.ndarray], chance: random.Random) -> str:
    """Change one thing, and say which."""
    nodes = document["nodes"]
    operators = [node for node in nodes if node["op"] != "null"]
    node = chance.choice(operators)
    position = nodes.index(node)
    inside = [each for body in node.get("subgraphs", []) for each in body["nodes"] if each["op"] != "null"]
    target = chance.choice([node, *inside])
    attrs = target.setdefault("attrs", {})
    name = chance.choice(sorted(params))
    way = chance.randrange(9)
    if way == 0 and attrs:
        attrs[chance.choice(sorted(attrs))] = chance.choice(_VALUES)
    elif way == 1:
        attrs[chance.choice(_KEYS)] = chance.choice(_VALUES)
    elif way == 2 and attrs:
        del attrs[chance.choice(sorted(attrs))]
    elif way == 3 and node["inputs"]:
        chance.choice(node["inputs"])[0] = chance.randrange(position)
    elif way == 4 and node["inputs"]:
        chance.choice(node["inputs"])[1] = chance.randrange(3)
    elif way == 5:
        target["op"] = chance.choice([each["op"] for each in operators] if chance.random() < 0.5 else sorted(OPERATORS))
    elif way == 6:
        params[name] = params[name].astype(chance.choice(TYPES))
    elif way == 7:
        shape = list(params[name].shape)
        axis = chance.randrange(len(shape))
        shape[axis] = max(1, shape[axis] + chance.choice((-1, 1, 7)))
        params[name] = np.resize(params[name], shape)
    elif way == 8 and node["inputs"]:
        if chance.random() < 0.5:
            node["inputs"].pop(chance.randrange(len(node["inputs"])))
        else:
            node["inputs"].append([chance.randrange(position), 0, 0])
    of_parameter = f"{params[name].dtype} {params[name].shape} for {name}"
    return of_parameter if way in (6, 7) else f"{target['op']} {target['name']} {attrs} reads {node['inputs']}"
