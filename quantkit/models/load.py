"""``load_model``: a network from a name, a card, files, or Python objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional, Protocol, Union, get_args, runtime_checkable

import numpy as np

from quantkit.backends.mxnet.gluon import arrays, block_network
from quantkit.backends.mxnet.zoo import ZooNetwork
from quantkit.data.boxes import BoxCorners
from quantkit.data.preprocess import Fit, Preprocess
from quantkit.data.sample_noun import sample_noun
from quantkit.errors import ModelError
from quantkit.files.files import as_text
from quantkit.models.card import Card
from quantkit.models.families import WITHOUT_CLASS_SCORES, Task, check_task
from quantkit.models.fit import fit
from quantkit.models.input_shapes import GivenShapes, Shape, Shapes, checked_shapes, with_batch
from quantkit.models.labels import label_names
from quantkit.models.layout import checked_layout
from quantkit.models.locate import locate
from quantkit.models.model import Model, Source
from quantkit.models.names import built
from quantkit.models.onnx_file import ONNX_SUFFIX, from_onnx
from quantkit.models.preprocess_change import PreprocessChange, with_preprocess
from quantkit.models.preprocess_size import preprocess_at
from quantkit.models.skeleton import Skeleton, skeleton_of
from quantkit.models.states_as_inputs import StatesKind, check_states_kind, with_states_as_inputs
from quantkit.models.symbol import newest_params, read_symbol
from quantkit.models.vocabulary import vocabulary_of
from quantkit.models.weights import Weights, from_file, resolve

Arrays = Optional[Mapping[str, np.ndarray]]


@runtime_checkable
class HybridBlock(Protocol):
    """A network of Gluon's, as far as it is used."""

    name: str

    def collect_params(self, select: Any = None) -> Any:
        """The parameters by name."""

    def hybrid_forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the block computes."""


@runtime_checkable
class Symbol(Protocol):
    """MXNet's ``Symbol``, as far as it is used."""

    name: Optional[str]

    def tojson(self) -> str:
        """The network as nnvm's JSON."""

    def list_arguments(self) -> list[str]:
        """The names of its variables."""


NetworkSpec = Union[str, Path, HybridBlock, Symbol, tuple[Symbol, Mapping[str, Any], Mapping[str, Any]]]
"""What a network can be given as; see ``load_model``."""


def load_model(
    spec: NetworkSpec,
    *,
    weights: Union[str, Path] = "auto",
    params: Optional[Mapping[str, Any]] = None,
    input_shape: GivenShapes = None,
    layout: Optional[str] = None,
    states: StatesKind = "zero",
    preprocess: Union[Preprocess, PreprocessChange, None] = None,
    class_scores: Optional[bool] = None,
    task: Optional[Task] = None,
    box_corners: Optional[BoxCorners] = None,
    quiet: bool = False,
) -> Model:
    """Load a network with its weights.

    Args:
        spec: a name or alias (``resnet50``; names win over files: write ``./resnet50`` for a file), a card's TOML
            file, a checkpoint's prefix (``PREFIX-symbol.json`` with the newest ``PREFIX-0000.params``), a
            symbol file, an ONNX file, or in Python a gluon ``HybridBlock``, an MXNet
            ``Symbol`` (with ``params``) or a tuple of Symbol, argument and auxiliary parameters.
        weights: ``auto``, ``pretrained``, ``random`` or a weights file. ONNX files have their own.
        params: arrays by name (NDArray or NumPy), instead of ``weights``.
        input_shape: of one input without the batch, if it is unknown or not the card's: (channels, height, width)
            of images, (channels, frames, height, width) of clips, (features,) of vectors, (steps, features) of
            sequences, (steps,) of token ids. Of a network with several inputs: their shapes by names, for a gluon block
            in the order in which it takes them.
        layout: of sequences, if it is unknown or not the card's: ``NTC`` or ``NT`` (batch, steps, ...), or ``TNC`` or
            ``TN`` (steps, batch, ...). The inputs and outputs of the loaded network always begin with the batch.
        states: of recurrent layers. ``zero``: every sequence begins at zero. ``inputs``: initial states are inputs of
            the deployed network, and final states outputs, so that a sequence can be run in pieces; see
            ``Predictor.step``.
        preprocess: instead of the card's, or what quantkit's own ONNX files say; a checkpoint without a card has none.
            A ``PreprocessChange`` replaces single steps.
        class_scores: whether the outputs are class scores, if quantkit would decide wrongly; see ``Model``.
        task: what the network is for, such as ``detection``, if it has no card or to override the card; its outputs are
            judged accordingly.
        box_corners: of a detector, instead of the card's: ``pixels`` if right and bottom are the last pixel in a box,
            as GluonCV's own training has it, or ``edges``.
        quiet: without progress bars.

    Raises:
        ModelError: the name is unknown (similar names are suggested), a file is missing or damaged, the network is
            INT8 already, weights and network do not fit, the input shape or the layout is unknown or does not fit,
            states cannot be inputs, or an argument is of another kind or contradicts another.
        WeightsUnavailable: ``weights`` is ``pretrained`` and no source has them.
        EngineMissing: mxnet is not installed, or gluoncv for one of its networks.
    """
    if preprocess is not None and not isinstance(preprocess, (Preprocess, PreprocessChange)):
        raise ModelError(f"preprocess is of type {type(preprocess).__name__}; give a Preprocess, or a PreprocessChange")
    if class_scores is not None and not isinstance(class_scores, bool):
        raise ModelError(f"class_scores is {class_scores!r}; give True or False, or None to have it told")
    check_task(task, class_scores)
    if box_corners is not None and box_corners not in get_args(BoxCorners):
        raise ModelError(f"box_corners is {box_corners!r}; give {' or '.join(get_args(BoxCorners))}")
    if params is not None and not isinstance(params, Mapping):
        raise ModelError(f"params is of type {type(params).__name__}; give arrays by name")
    check_states_kind(states)
    shape = checked_shapes(input_shape)
    given = None if params is None else arrays(params)
    change = preprocess if isinstance(preprocess, PreprocessChange) else PreprocessChange()
    whole = preprocess if isinstance(preprocess, Preprocess) else None
    if isinstance(spec, (str, Path)):
        model = _from_text(str(spec), str(weights), given, shape, layout, whole, change.fit, quiet)
    else:
        model = _from_object(spec, str(weights), given, shape, layout, whole)
    task = "classification" if class_scores else task or model.task
    if class_scores is None and task in WITHOUT_CLASS_SCORES:
        class_scores = False
    if box_corners is not None and task not in (None, "detection"):
        raise ModelError(f"{model.name} is for {task}, which has no boxes; leave out box_corners (--box-corners)")
    model = replace(
        model,
        class_scores=class_scores,
        task=task,
        box_corners=box_corners or model.box_corners,
        vocabulary=vocabulary_of(model.graph, model.graph.inputs[0]),
    )
    if (model.preprocess is not None or change.given) and sample_noun(model.input_shape) != "image":
        raise ModelError(
            f"{model.name} reads {model.joined or f'inputs of shape {model.input_shape}, no images'}; leave out the "
            "preprocessing" + (", and give preprocessed arrays" if model.joined else "")
        )
    return with_preprocess(with_states_as_inputs(model) if states == "inputs" else model, change)


def _from_text(
    spec: str,
    weights: str,
    given: Arrays,
    shape: Shapes,
    layout: Optional[str],
    preprocess: Optional[Preprocess],
    fit_given: Optional[Fit],
    quiet: bool,
) -> Model:
    found = locate(spec)
    if isinstance(found, Card):
        if isinstance(shape, Mapping):
            raise ModelError(f"{found.name} has one input; give its shape alone, such as --input-shape 3,224,224")
        return _from_card(found, weights, given, shape, layout, preprocess, fit_given, quiet)
    if found.suffix == ONNX_SUFFIX:
        if given is not None or weights not in ("auto", "pretrained"):
            raise ModelError(f"{found} holds its own weights; leave other weights out, or export it with them")
        return from_onnx(found, shape, preprocess, layout, fit_given)
    return _from_checkpoint(found, weights, given, shape, layout, preprocess)


def _from_card(
    card: Card,
    weights: str,
    given: Arrays,
    shape: Optional[Shape],
    layout: Optional[str],
    preprocess: Optional[Preprocess],
    fit_given: Optional[Fit],
    quiet: bool,
) -> Model:
    shape = shape or card.input_shape
    network: Optional[ZooNetwork] = None
    if card.symbol is not None:
        path = card.file(card.symbol)
        text, where = read_symbol(path), str(path)
    else:
        checked_layout(layout or card.layout, shape)
        network = built(str(card.network), shape, card.labels if isinstance(card.labels, tuple) else ())
        text, where = network.symbol, card.name
    skeleton = skeleton_of(text, shape, layout or card.layout, where, network)
    if given is not None:
        found = _given(card.name, skeleton, given)
    else:
        found = resolve(card, weights, skeleton.wanted, skeleton.random, quiet)
    preprocess = preprocess or preprocess_at(found.preprocess or card.preprocess, card.input_shape, shape, fit_given)
    model = skeleton.model(card.name, found, preprocess)
    return replace(
        model,
        labels=label_names(card),
        exclude=card.exclude,
        task=card.task,
        box_corners=card.box_corners or "edges",
        notes=(*card.notes, *model.notes),
    )


def _from_checkpoint(
    symbol: Path,
    weights: str,
    given: Arrays,
    shape: Shapes,
    layout: Optional[str],
    preprocess: Optional[Preprocess],
) -> Model:
    name = as_text(symbol.name.removesuffix("-symbol.json") if symbol.name.endswith("-symbol.json") else symbol.stem)
    skeleton = skeleton_of(read_symbol(symbol), shape, layout, str(symbol))
    if given is not None:
        found = _given(name, skeleton, given)
    elif weights == "random":
        found = Weights(skeleton.random(), Source(name, "random"))
    else:
        path = newest_params(symbol) if weights in ("auto", "pretrained") else Path(weights)
        found = from_file(name, path, skeleton.wanted)
    return skeleton.model(name, found, preprocess)


def _from_object(
    spec: Union[HybridBlock, Symbol, tuple[Symbol, Mapping[str, Any], Mapping[str, Any]]],
    weights: str,
    given: Arrays,
    shape: Shapes,
    layout: Optional[str],
    preprocess: Optional[Preprocess],
) -> Model:
    if isinstance(spec, tuple) and len(spec) == 3:
        spec, arguments, auxiliary = spec
        given = given or arrays({**arguments, **auxiliary})
    if isinstance(spec, HybridBlock):
        if shape is None:
            raise ModelError(
                f"block {spec.name!r}: give input_shape=(channels, height, width), or that of other inputs"
            )
        text, own = block_network(spec, with_batch(shape, layout))
        given = own if given is None else given
    elif isinstance(spec, Symbol):
        text = spec.tojson()
    else:
        raise ModelError(
            f"cannot load a network from {type(spec).__name__}; give a name, a path, a HybridBlock, "
            "a Symbol with params, or a tuple (Symbol, argument parameters, auxiliary parameters)"
        )
    name = spec.name or "network"
    skeleton = skeleton_of(text, shape, layout, f"symbol {name!r}")
    if weights == "random":
        found = Weights(skeleton.random(), Source(name, "random"))
    elif given is not None:
        found = _given(name, skeleton, given)
    elif weights in ("auto", "pretrained"):
        raise ModelError(f"symbol {name!r} comes without parameters; give params= or weights=FILE")
    else:
        found = from_file(name, Path(weights), skeleton.wanted)
    return skeleton.model(name, found, preprocess)


def _given(name: str, skeleton: Skeleton, given: Mapping[str, np.ndarray]) -> Weights:
    return Weights(fit(skeleton.wanted, given, "params"), Source(name, "given"))
