"""Networks of GluonCV's model zoo and quantkit's own, built by name, without weights and without downloads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache, lru_cache
from io import StringIO
from types import MappingProxyType
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.backends.mxnet.data_sets import data_set_classes
from quantkit.backends.mxnet.gluon import INPUT, block_symbol, symbol_shapes
from quantkit.backends.mxnet.inception_bn import inception_bn
from quantkit.backends.mxnet.without_weights import without_weights
from quantkit.errors import ModelError

Shape = tuple[int, ...]
Options = tuple[tuple[str, Any], ...]
"""What GluonCV's function for a network takes, as pairs of name and value."""

# Networks that GluonCV lacks.
_OWN = {"inception_bn": inception_bn}

# The names that GluonCV's store has for weights, where they differ from the network's.
_STORED = {
    "resnet18_v1b_0.89": "resnet18_v1b_2.6x",
    "resnet50_v1d_0.86": "resnet50_v1d_1.8x",
    "resnet50_v1d_0.48": "resnet50_v1d_3.6x",
    "resnet50_v1d_0.37": "resnet50_v1d_5.9x",
    "resnet50_v1d_0.11": "resnet50_v1d_8.8x",
    "resnet101_v1d_0.76": "resnet101_v1d_1.9x",
    "resnet101_v1d_0.73": "resnet101_v1d_2.2x",
}

# Building a large network takes seconds, and its card and its skeleton both need it.
_KEPT = 2


@dataclass(frozen=True)
class ZooNetwork:
    """A network without weights: symbol JSON with the only input ``data``, and its parameters' shapes by symbol name.

    ``structured`` maps each parameter to its place in the gluon block (``features.0.weight``), its
    name in files of ``save_parameters``; ``unused`` are the other names there: of parameters that the network does not
    read, or that have two places.
    ``constants`` are the values of parameters that no training changes, such as anchor boxes. ``classes`` is the number
    of classes that the block names, or of the channels of its first output. ``labels`` are the names, the block's or
    those of the data set that the network is named after.
    """

    symbol: str
    shapes: Mapping[str, Shape]
    structured: Mapping[str, str]
    classes: int
    labels: tuple[str, ...] = ()
    constants: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    unused: frozenset[str] = frozenset()


@cache
def zoo_names() -> tuple[str, ...]:
    """The names of all networks of GluonCV's zoo.

    Raises:
        EngineMissing: gluoncv is not installed.
    """
    return tuple(sorted(load_gluoncv().model_zoo.get_model_list()))


@lru_cache(_KEPT)
def zoo_network(name: str, input_shape: Shape, options: Options = ()) -> ZooNetwork:
    """Build a network by name, without weights.

    Its nodes have the same names in every process.

    Args:
        name: of one of GluonCV's networks, or of quantkit's own.
        input_shape: of one input, without the batch: (channels, height, width), of clips (channels, frames, ...).
        options: for GluonCV's function.

    Raises:
        EngineMissing: the network is one of GluonCV's, and gluoncv is not installed.
        ModelError: there is no such network, or it does not accept the shape or cannot be traced.
    """
    if name not in _OWN and name not in zoo_names():
        raise ModelError(f"GluonCV has no network {name!r}; `quantkit models '*'` lists those that it has")
    mxnet = load_mxnet()
    with mxnet.name.NameManager():
        block = _OWN[name]() if name in _OWN else _from_gluoncv(name, dict(options))
        symbol = block_symbol(block)
    arguments, outputs, auxiliary = symbol_shapes(symbol, name, {INPUT: (1, *input_shape)})
    shapes = {**arguments, **auxiliary}
    places = block._collect_params_with_prefix()
    structured = {each.name: place for place, each in places.items() if each.name in shapes}
    held = _labels(block)
    classes = len(held) or outputs[0][min(1, len(outputs[0]) - 1)]
    labels = held or data_set_classes(name)
    return ZooNetwork(
        symbol.tojson(),
        MappingProxyType(shapes),
        MappingProxyType(structured),
        classes,
        labels if len(labels) == classes else (),
        MappingProxyType(_constants(block, shapes)),
        frozenset(places) - frozenset(structured.values()),
    )


def zoo_source(name: str) -> Optional[tuple[str, str]]:
    """The name that GluonCV's store has for the trained weights of a network, and their SHA-1; None if it has none."""
    load_gluoncv()
    from gluoncv.model_zoo.model_store import _model_sha1

    classifier = name.startswith("hrnet_") and name.endswith("_c")
    stored = f"{name.removesuffix('_c')}_cls" if classifier else _STORED.get(name, name)
    checksum: Optional[str] = _model_sha1.get(stored)
    return None if checksum is None else (f"{stored}-{checksum[:8]}", checksum)


def _from_gluoncv(name: str, options: Mapping[str, Any]) -> Any:
    zoo, mxnet = load_gluoncv().model_zoo, load_mxnet()
    # Some of its networks print their sizes.
    with redirect_stdout(StringIO()), without_weights(name):
        return zoo.get_model(name, pretrained=False, ctx=mxnet.cpu(), **options)


def _labels(block: Any) -> tuple[str, ...]:
    classes = getattr(block, "classes", None)
    if not isinstance(classes, (list, tuple)) or not all(isinstance(each, str) for each in classes):
        return ()
    return tuple(classes)


def _constants(block: Any, shapes: Mapping[str, Shape]) -> dict[str, np.ndarray]:
    constant = load_mxnet().gluon.Constant
    parameters = {name: each for name, each in block.collect_params().items() if name in shapes}
    return {name: each.value.asnumpy() for name, each in parameters.items() if isinstance(each, constant)}
