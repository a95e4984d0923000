"""Workloads: networks, bundles and recurrent layers prepared for measuring."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Optional

import numpy as np

from quantkit.backends.mxnet.checkpoint import read_checkpoint
from quantkit.backends.mxnet.execute import MxnetSession
from quantkit.backends.mxnet.instructions import does_without_vnni, int8_lstm_obstacle, may_rule_out_vnni
from quantkit.backends.mxnet.shapes import check_runs, infer_shapes
from quantkit.backends.registry import MXNET
from quantkit.benchmark.suites.suite import Recurrent, Subject
from quantkit.benchmark.variants import VARIANTS
from quantkit.benchmark.workloads.exported import INT8_FORMS, int8_file
from quantkit.benchmark.workloads.forms import BY_OTHERS, Forms, known_accuracy
from quantkit.benchmark.workloads.images import image_batch
from quantkit.benchmark.workloads.network import Checkpoint
from quantkit.benchmark.workloads.recurrent import recurrent_model, sequences
from quantkit.benchmark.workloads.store import (
    Made,
    Stored,
    stored_array,
    stored_checkpoint,
    stored_outputs,
)
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.engine import present_engine
from quantkit.bundle.file_names import PARAMS, SYMBOL
from quantkit.bundle.read import read_bundle
from quantkit.data.preparation import Preparation
from quantkit.data.sample_noun import sample_noun
from quantkit.errors import EngineError, PeerError, QuantkitError, UserError
from quantkit.files.bundles import is_bundle
from quantkit.formats.mxnet import nnvm
from quantkit.formats.npz import read_npy
from quantkit.ir.graph import Graph
from quantkit.ir.macs import macs
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.progress import Tell, untold

_CALIBRATION_SEQUENCES = 32


@dataclass(frozen=True)
class Workload:
    """A network ready to be measured; the first fields are those of ``quantkit.benchmark.results.results.Network``.

    ``input_name`` is its one input, ``checkpoints`` are its forms (see ``benchmark.variants``), ``inputs_of`` finds or
    makes the input file of a batch size, ``obstacles`` says of forms why another quantizer could not make them. Nothing
    of the network itself is held in memory.
    """

    name: str
    weights: str
    macs: int
    item: str
    accuracy: Mapping[str, float]
    input_name: str
    checkpoints: Mapping[str, Checkpoint]
    inputs_of: Callable[[int], Path]
    obstacles: Mapping[str, str] = field(default_factory=dict)

    def checkpoint(self, form: str) -> Checkpoint:
        """The files of a form."""
        return self.checkpoints[form]

    def inputs(self, batch: int) -> Path:
        """An .npy file with the input for a batch size, float32.

        Raises:
            DataError: the images cannot be used.
            QuantkitError: it cannot be written.
        """
        return self.inputs_of(batch)

    def reference(self, variant: str, batch: int) -> Optional[Path]:
        """An .npz file with the outputs that INT8 must have, by this environment's engine; None for other variants.

        Raises:
            EngineError: this engine cannot run the network.
            QuantkitError: it cannot be written.
        """
        if variant != "int8":
            return None
        checkpoint, path = self.checkpoints[variant], self.inputs(batch)
        # The engine is part of the key: processors without VNNI can saturate, and releases round differently.
        made_from = (sorted(checkpoint.sha256.items()), path.name, present_engine())
        key = hashlib.sha256(repr(made_from).encode()).hexdigest()
        try:
            return stored_outputs(key, lambda: _outputs(checkpoint, self.input_name, path))
        finally:
            _return_memory()


def prepare(
    subject: Subject,
    forms: Collection[str],
    data: Any = "builtin",
    reference: Optional[str] = None,
    loading: Mapping[str, Any] = MappingProxyType({}),
    tell: Tell = untold,
) -> Workload:
    """Make a suite's network ready to be measured; what an earlier run has left in QUANTKIT_HOME is taken from there.

    A bundle's own form is measured as it is; its others are made from ``reference``. A form that another quantizer
    fails to make is among the workload's ``obstacles``.

    Args:
        subject: the network.
        forms: those that are needed (see ``benchmark.variants``).
        data: the images to calibrate with and to run on, as ``load_data`` takes them.
        reference: the FP32 network that a bundle was made from.
        loading: options of ``load_model``.
        tell: is told what takes long.

    Raises:
        UserError: the network cannot be loaded, does not have a form, or the reference is another network.
        DataError: the images cannot be used.
        QuantkitError: fusing or quantizing failed, or files cannot be written.
    """
    if set(INT8_FORMS) & set(forms):
        # What other engines compute is held against it.
        forms = tuple(dict.fromkeys((*forms, "int8")))
    try:
        if subject.rnn is not None:
            return _from_recurrent(subject.name, subject.rnn, forms, tell)
        spec = str(subject.model)
        if is_bundle(spec):
            return _from_bundle(subject.name, Path(spec), forms, data, reference, loading, tell)
        tell(f"{subject.name}: loading")
        return _from_model(subject.name, load_model(spec, **loading), forms, data, tell)
    finally:
        _return_memory()


def _from_model(name: str, model: Model, forms: Collection[str], data: Any, tell: Tell) -> Workload:
    if "int8" in forms and does_without_vnni() and not may_rule_out_vnni(model.graph):
        raise UserError(
            f"{name} needs VNNI in INT8, and this process runs without it for the sake of LSTM layers; measure "
            "recurrent layers in a run of their own"
        )
    _check_one_input(model, forms)
    made = Forms(model, data, tell)
    stored, obstacles = _stored(made, forms, tell)
    known = {figure: value for each in stored.values() for figure, value in each.accuracy.items()}
    checkpoints = {form: each.checkpoint for form, each in stored.items()}
    return replace(_images(name, model, known, checkpoints, data), obstacles=obstacles)


def _check_one_input(model: Model, forms: Collection[str]) -> None:
    """Make sure that no ONNX file with several inputs is to be measured."""
    of_mxnet = {variant.forms[MXNET.name] for variant in VARIANTS.values() if MXNET.name in variant.forms}
    if model.joined and not set(forms) <= of_mxnet:
        raise UserError(
            f"ONNX files of {model.name} have several inputs, and benchmarks feed one; measure it with "
            "--builds onednn --variants fp32,fused,int8"
        )


def _stored(made: Forms, forms: Collection[str], tell: Tell) -> tuple[dict[str, Stored], dict[str, str]]:
    """The forms of a network, and why others could not be had from other quantizers."""
    stored: dict[str, Stored] = {}
    obstacles: dict[str, str] = {}
    for form in forms:
        try:
            stored[form] = made.stored(form)
        except (EngineError, PeerError) as error:
            if form not in BY_OTHERS:
                raise
            obstacles[form] = _brief(error)
            tell(f"{made.model.name} has no form {form}: {obstacles[form]}")
    return stored, obstacles


def _brief(error: QuantkitError) -> str:
    """The first and the last line of a message, without the engine's stack trace."""
    first, *others = str(error).partition("Stack trace:")[0].strip().splitlines()
    return " ".join((first, *(line.strip() for line in others[-1:])))


def _from_bundle(
    name: str,
    directory: Path,
    forms: Collection[str],
    data: Any,
    reference: Optional[str],
    loading: Mapping[str, Any],
    tell: Tell,
) -> Workload:
    bundle = read_bundle(directory)
    manifest = bundle.manifest
    own = "int8" if manifest.kind == "int8" else "fused"
    exported = set(INT8_FORMS) & set(forms) if own == "int8" else set()
    others = [form for form in forms if form not in {own, *exported}]
    if manifest.states and exported:
        raise UserError(
            f"the ONNX file of bundle {directory} reads the state {manifest.states[0].input!r}, and benchmarks hand "
            f"none on; give --variants {own}, or a bundle of the network loaded with --states zero"
        )
    _check_one_input(bundle.model, exported)
    checkpoints: Mapping[str, Checkpoint] = {}
    obstacles: Mapping[str, str] = {}
    if others:
        if reference is None:
            raise UserError(
                f"bundle {directory} holds {own} alone, and {', '.join(others)} is to be measured, too; name the "
                f"network that it was made from ({manifest.source.network}) with --reference, or give --variants {own}"
            )
        tell(f"{name}: loading {reference}")
        model = load_model(reference, **loading)
        _check_reference(bundle, model)
        of_reference = _from_model(name, model, others, data, tell)
        checkpoints, obstacles = of_reference.checkpoints, of_reference.obstacles
    sha256 = {"symbol": manifest.files[SYMBOL].sha256, "params": manifest.files[PARAMS].sha256}
    if own in forms:
        # Written again: workers pass the files to MXNet, which may read more in an untrusted one than was checked.
        graph = bundle.graph
        stored = stored_checkpoint(f"{name}-{own}", nnvm.sha256_of(graph), lambda: Made(graph, {}), tell)
        checkpoints = {**checkpoints, own: stored.checkpoint}
    for form in sorted(exported):
        written = int8_file(form, name, repr(sha256), lambda folder: directory, tell)
        checkpoints = {**checkpoints, form: written}
    known = {}
    if manifest.agreement is not None:
        known = known_accuracy(manifest.agreement)
    return replace(_images(name, bundle.model, known, checkpoints, data), obstacles=obstacles)


def _check_reference(bundle: Bundle, model: Model) -> None:
    """Check that a bundle was made from a model, as far as the origin of the weights is known."""
    manifest = bundle.manifest
    read = (model.graph.inputs[0], model.input_shape, model.joined)
    if (manifest.input.name, manifest.input.shape, bundle.joined) != read:
        raise UserError(f"{model.name} does not read what bundle {bundle.directory} reads; it is not its reference")
    origin = manifest.source
    other_weights = origin.sha256 != model.source.sha256 and "given" not in (origin.weights, model.source.weights)
    if origin.network != model.source.network or other_weights:
        raise UserError(
            f"bundle {bundle.directory} was made from {origin.network} with {origin.weights} weights "
            f"({origin.location or 'no file'}), {model.name} has {model.source.weights} ones "
            f"({model.source.location or 'no file'}); name the network and --weights that the bundle was made from"
        )


def _images(
    name: str, model: Model, accuracy: Mapping[str, float], checkpoints: Mapping[str, Checkpoint], data: Any
) -> Workload:
    is_random = model.source.weights == "random"
    preparation, shape = model.preparation, model.input_shape
    return Workload(
        name=name,
        weights="random" if is_random else "trained",
        macs=sum(macs(model.graph, infer_shapes(model.graph, {model.graph.inputs[0]: (1, *shape)})).values()),
        item=sample_noun(shape),
        # Random weights make no predictions that could agree.
        accuracy={} if is_random else accuracy,
        input_name=model.graph.inputs[0],
        checkpoints=checkpoints,
        inputs_of=cache(partial(_image_input, checkpoints, model.graph.inputs[0], data, preparation, shape)),
    )


def _image_input(
    checkpoints: Mapping[str, Checkpoint],
    input_name: str,
    data: Any,
    preparation: Preparation,
    shape: tuple[int, ...],
    batch: int,
) -> Path:
    images = image_batch(data, preparation, shape, batch)
    # Workers hand the files to MXNet as they are.
    for checkpoint in checkpoints.values():
        if "symbol" in checkpoint.files:
            check_runs(_read(checkpoint), {input_name: images.shape})
    return stored_array(images)


def _from_recurrent(name: str, stack: Recurrent, forms: Collection[str], tell: Tell) -> Workload:
    if "int8" in forms and stack.mode != "lstm":
        raise UserError(
            f"{name} has {stack.mode} layers, and MXNet has an INT8 kernel for lstm alone; measure it in FP32"
        )
    if "int8" in forms and (obstacle := int8_lstm_obstacle()):
        raise UserError(f"{name} cannot be quantized: {obstacle}; measure recurrent layers in a run of their own")
    workload = _from_model(name, recurrent_model(name, stack), forms, sequences(stack, _CALIBRATION_SEQUENCES), tell)
    # More sequences may be run at once than were calibrated with.
    inputs = cache(lambda batch: stored_array(sequences(stack, batch)))
    return replace(workload, item="sequence", inputs_of=inputs)


def _outputs(checkpoint: Checkpoint, input_name: str, path: Path) -> list[np.ndarray]:
    data = read_npy(path)
    return MxnetSession(_read(checkpoint), {input_name: data.shape}).run({input_name: data})


def _read(checkpoint: Checkpoint) -> Graph:
    return read_checkpoint(checkpoint.files["symbol"], checkpoint.files["params"])


def _return_memory() -> None:
    """Return freed memory to the system: engines leave hundreds of free megabytes in glibc's heap."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
