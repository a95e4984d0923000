"""Networks from GluonCV's model zoo and from gluon blocks, as symbols with named and shaped parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.calls import failures
from quantkit.backends.mxnet.compat import load_gluoncv, load_mxnet
from quantkit.backends.mxnet.inception_bn import inception_bn
from quantkit.backends.mxnet.shapes import shapes_of
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.errors import ModelError
from quantkit.ir.graph import Graph
from quantkit.ir.tensor_bounds import MOST_VALUES

INPUT = "data"

# The modules of GluonCV's model zoo with image classifiers; the others are for detection, video and the like.
_CLASSIFIERS = frozenset(
    {
        "alexnet",
        "cifarresnet",
        "cifarresnext",
        "cifarwideresnet",
        "densenet",
        "dla",
        "googlenet",
        "hrnet",
        "inception",
        "mobilenet",
        "mobilenetv3",
        "pruned_resnet",
        "residual_attentionnet",
        "resnest",
        "resnet",
        "resnetv1b",
        "resnext",
        "senet",
        "shufflenet",
        "squeezenet",
        "vgg",
        "xception",
    }
)

# Suffixes in those modules: segmentation networks, and networks whose normalisation has no shape to trace with.
_OTHERS = ("_s", "_gn")

# Networks that GluonCV lacks.
_OWN = {"inception_bn": inception_bn}


@dataclass(frozen=True)
class ZooNetwork:
    """A network without weights: symbol JSON with the only input ``data``, and its parameters' shapes by symbol name.

    ``structured`` maps each parameter to its place in the gluon block (``features.0.weight``), its
    name in files of ``save_parameters``. ``classes`` is the number of its outputs' values.
    """

    symbol: str
    shapes: Mapping[str, tuple[int, ...]]
    structured: Mapping[str, str]
    classes: int


@cache
def zoo_names() -> tuple[str, ...]:
    """The names of GluonCV's image classifiers.

    Raises:
        EngineMissing: gluoncv is not installed.
    """
    registry = load_gluoncv().model_zoo.model_zoo._models
    modules = {name: build.__module__.split(".")[2] for name, build in registry.items()}
    return tuple(
        sorted(name for name, module in modules.items() if module in _CLASSIFIERS and not name.endswith(_OTHERS))
    )


def zoo_network(name: str, input_shape: tuple[int, ...]) -> ZooNetwork:
    """Build one of GluonCV's or quantkit's classifiers by name, without weights.

    Its nodes have the same names in every process. ``input_shape`` is (channels, height, width).

    Raises:
        EngineMissing: the network is one of GluonCV's, and gluoncv is not installed.
        ModelError: the network does not accept the shape, or is not a classifier.
    """
    mxnet = load_mxnet()
    with mxnet.name.NameManager():
        block = _OWN[name]() if name in _OWN else _from_gluoncv(name)
        symbol = _symbol(block)
    arguments, outputs, auxiliary = _shapes(symbol, name, input_shape)
    if len(outputs) != 1 or len(outputs[0]) != 2:
        raise ModelError(f"{name} is not an image classifier: its outputs have the shapes {outputs}")
    structured = {parameter.name: place for place, parameter in block._collect_params_with_prefix().items()}
    return ZooNetwork(symbol.tojson(), {**arguments, **auxiliary}, structured, outputs[0][1])


def _from_gluoncv(name: str) -> Any:
    return load_gluoncv().model_zoo.get_model(name, pretrained=False, ctx=load_mxnet().cpu())


def zoo_sha1(name: str) -> Optional[str]:
    """The SHA-1 of the trained weights that GluonCV publishes for a network; None if it publishes none."""
    load_gluoncv()
    from gluoncv.model_zoo.model_store import _model_sha1

    checksum: Optional[str] = _model_sha1.get(name)
    return checksum


def parameter_shapes(
    graph: Graph, input_name: str, input_shape: tuple[int, ...], known: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """The shapes of all other variables of a network, given that of its image input (channels, height, width).

    ``known`` are shapes that the network states for variables; most follow from the input.

    Raises:
        ModelError: the network does not accept the shape, leaves a parameter's shape open, or has too many parameters.
    """
    arguments, _, auxiliary = _shapes(symbol_of(graph), "the network", input_shape, input_name, known)
    shapes = {**arguments, **auxiliary}
    count = sum(map(prod, shapes.values()))
    if count > MOST_VALUES:
        raise ModelError(f"the network's parameters would have {count} values, more than {MOST_VALUES}")
    return shapes


def block_network(
    block: Any, input_shape: tuple[int, ...], time_major: bool = False
) -> tuple[str, dict[str, np.ndarray]]:
    """The symbol JSON and the parameters of an initialised gluon ``HybridBlock`` with one input.

    ``input_shape`` is without the batch, which is the first axis of the input, the second if it is ``time_major``.

    Raises:
        ModelError: the block cannot be traced, does not accept the shape, or has parameters without values.
    """
    mxnet = load_mxnet()
    with mxnet.name.NameManager():
        symbol = _symbol(block)
    at = 1 if time_major else 0
    arguments, _, auxiliary = _shapes(symbol, block.name, input_shape, batch_axis=at)
    shapes = {**arguments, **auxiliary}
    try:
        params = {
            name: _allocated(parameter, shapes[name])
            for name, parameter in block.collect_params().items()
            if name in shapes
        }
    except (mxnet.base.MXNetError, RuntimeError) as error:
        raise ModelError(
            f"block {block.name!r} has parameters without values ({_first_line(error)}); "
            "call initialize() or load_parameters() first"
        ) from error
    return symbol.tojson(), arrays({name: params[name] for name in shapes if name in params})


def _allocated(parameter: Any, shape: tuple[int, ...]) -> Any:
    """The values of a gluon parameter, which are initialised now if its shape was open.

    A forward pass would do so, too, but oneDNN chooses its instructions in it; see ``instructions``.
    """
    parameter.shape = shape
    parameter._finish_deferred_init()
    return parameter.data()


def arrays(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """NDArrays (or NumPy arrays) by name as NumPy arrays."""
    return {name: value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value) for name, value in values.items()}


def imagenet_names() -> tuple[str, ...]:
    """GluonCV's names of ImageNet's 1000 classes."""
    load_gluoncv()
    from gluoncv.data.imagenet.classification import ImageNet1kAttr

    return tuple(ImageNet1kAttr().classes)


def _symbol(block: Any) -> Any:
    mxnet = load_mxnet()
    try:
        outputs = block(mxnet.sym.var(INPUT))
    except (mxnet.base.MXNetError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise ModelError(
            f"block {block.name!r} cannot be traced with one symbolic input: {_first_line(error)}; "
            "make it a HybridBlock whose hybrid_forward takes one batch"
        ) from error
    return mxnet.sym.Group(list(outputs)) if isinstance(outputs, (list, tuple)) else outputs


def _shapes(
    symbol: Any,
    name: str,
    input_shape: tuple[int, ...],
    input_name: str = INPUT,
    known: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    batch_axis: int = 0,
) -> tuple[dict[str, tuple[int, ...]], list[tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Shapes of the parameters, outputs and auxiliary states of a symbol for a batch of one."""
    try:
        given = {key: shape for key, shape in known.items() if key in symbol.list_arguments()}
        inferred = shapes_of(symbol, {**given, input_name: (*input_shape[:batch_axis], 1, *input_shape[batch_axis:])})
    except failures() as error:
        raise ModelError(
            f"{name} does not accept input of shape {input_shape}: {_first_line(error)}; "
            "give the input shape it was made for"
        ) from error
    if inferred is None:
        raise ModelError(f"{name}: the shapes of its parameters do not follow from input {input_shape}")
    arguments, outputs, auxiliary = inferred
    named = dict(zip(symbol.list_arguments(), arguments))
    named.pop(input_name, None)
    return named, list(outputs), dict(zip(symbol.list_auxiliary_states(), auxiliary))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Error in operator" in line or "Check failed" in line]
    return (causes or lines or [type(error).__name__])[0]
