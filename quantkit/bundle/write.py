"""Writing bundles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Optional, Union

import numpy as np

from quantkit.backends.mxnet.checkpoint import write_checkpoint
from quantkit.backends.mxnet.execute import run
from quantkit.bundle.card import card_text, label_lines, told_corners, told_task
from quantkit.bundle.engine import present_engine
from quantkit.bundle.file_names import (
    BUNDLE,
    CARD,
    CONFIG,
    LABELS,
    ONNX_FILES,
    OPERATORS,
    PARAMS,
    SAMPLE,
    SIGNALS,
    SYMBOL,
    TABLE,
    TRAINING,
)
from quantkit.bundle.manifest import (
    AgreementResult,
    FileEntry,
    FusionResult,
    Input,
    Joined,
    Manifest,
    Origin,
    Output,
    OutputResult,
    PerplexityResult,
    ScoreResult,
    Settings,
    State,
    StepResult,
    version_for,
)
from quantkit.bundle.manifest_file import manifest_text
from quantkit.bundle.quantization import write_quantized
from quantkit.bundle.sample import StoredSample, stored_sample
from quantkit.bundle.training_record import training_record_text
from quantkit.calibration.table import CalibrationTable, write_table
from quantkit.drift.reference import DriftReference, reference_bytes
from quantkit.errors import ModelError
from quantkit.evaluation.agreement import Agreement
from quantkit.files.bundles import MANIFEST
from quantkit.files.files import sha256_of
from quantkit.files.folders import replacing
from quantkit.formats.npz import write_npz
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.ir.operators import scores_kind
from quantkit.lowering.onnx_lstm import LstmForm
from quantkit.models.layout import SEQUENCE_LAYOUTS
from quantkit.models.model import Model
from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.explain import Explanation, explain
from quantkit.quantization.plan import float_plan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.tasks.choose import class_count
from quantkit.version import __version__


@dataclass(frozen=True, eq=False)
class Quantization:
    """What an INT8 bundle holds besides its fused model: the quantized network, how it was made, and its agreement.

    ``drift`` are the signals of the samples of the agreement; None where they are not known. ``training`` says how it
    was trained with its quantization, as JSON values; None where it was not.
    """

    network: QuantizedGraph
    table: CalibrationTable
    config: QuantizationConfig
    settings: Settings
    agreement: Optional[Agreement]
    drift: Optional[DriftReference] = None
    training: Optional[Mapping[str, Any]] = None


def write_bundle(
    source: FusedModel,
    quantization: Quantization,
    directory: Union[str, Path],
    force: bool = False,
    onnx: Mapping[LstmForm, bytes] = MappingProxyType({}),
    keep_sample: bool = False,
) -> Path:
    """Write an INT8 network as a bundle, completely or not at all, with its ONNX files as far as they are given.

    The same network gives the same bytes. The directory may be new or empty. With ``force`` it may also be an older
    bundle, which is replaced once the new one is complete. With ``keep_sample`` the stored sample is the first of the
    user's images, otherwise it is none of them; see ``sample.stored_sample``.

    Raises:
        UserError: the directory holds a bundle and ``force`` is not given, or holds anything else.
        QuantkitError: the disk is full or the place cannot be written.
        EngineError: this engine cannot run the network on the stored sample.
    """
    directory = Path(directory)
    with replacing(directory, force, BUNDLE) as new:
        write_table(quantization.table, new / TABLE)
        _write_text(new / CONFIG, quantization.config.toml)
        for form, content in onnx.items():
            (new / ONNX_FILES[form]).write_bytes(content)
        if quantization.drift is not None:
            (new / SIGNALS).write_bytes(reference_bytes(quantization.drift))
        if quantization.training is not None:
            _write_text(new / TRAINING, training_record_text(quantization.training))
        lowered = write_quantized(quantization.network, new)
        operators = explain(source.fused, quantization.network.plan, source.model.standing_for_inputs)
        sample = stored_sample(source, quantization.table, keep_sample)
        agreement = _agreement_result(quantization.agreement)
        _write(new, "int8", source, lowered, sample, operators, quantization.settings, agreement)
    return directory


def _agreement_result(agreement: Optional[Agreement]) -> Optional[AgreementResult]:
    if agreement is None:
        return None
    document = agreement.document
    outputs = tuple(OutputResult(**output) for output in document["outputs"])
    steps = tuple(StepResult(**step) for step in document.get("steps", ()))
    perplexity = PerplexityResult(**document["perplexity"]) if "perplexity" in document else None
    scores = tuple(ScoreResult(**score) for score in document.get("scores", ()))
    return AgreementResult(agreement.images, agreement.top1, outputs, steps, perplexity, scores)


def write_float_bundle(
    fused: FusedModel, directory: Union[str, Path], force: bool = False, keep_sample: bool = False
) -> Path:
    """Write a fused FP32 network as a bundle; see ``write_bundle``."""
    directory = Path(directory)
    with replacing(directory, force, BUNDLE) as new:
        operators = explain(fused.fused, float_plan(fused.fused.graph), fused.model.standing_for_inputs)
        _write(new, "fp32", fused, fused.graph, stored_sample(fused, None, keep_sample), operators, None, None)
    return directory


def _write(
    directory: Path,
    kind: Literal["int8", "fp32"],
    source: FusedModel,
    graph: Graph,
    sample: StoredSample,
    operators: Iterable[Explanation],
    settings: Optional[Settings],
    agreement: Optional[AgreementResult],
) -> None:
    """Fill ``directory``, which may already hold other files of the bundle; the manifest comes last."""
    model, check = source.model, source.check
    (input_name,) = graph.inputs
    outputs = run(graph, {input_name: sample.input})
    with (directory / SYMBOL).open("wb") as symbol, (directory / PARAMS).open("wb") as params:
        write_checkpoint(model.deployed.network(graph), symbol, params)
    _write_sample(sample.input, outputs, directory / SAMPLE)
    classes = _classes(model, [value.shape[1:] for value in outputs])
    _write_text(directory / CARD, card_text(model, classes))
    if model.labels:
        if len(model.labels) != classes:
            raise ModelError(f"{model.name!r} has {len(model.labels)} labels for {classes} outputs; correct the labels")
        _write_text(directory / LABELS, label_lines(model.labels))
    states = tuple(State(each.input, str(graph.outputs[each.output]), each.shape) for each in model.states)
    several = model.joined.inputs if model.joined else ()
    joined = tuple(Joined(each.name, each.shape, each.vocabulary) for each in several)
    task = told_task(model.task)
    rows = [asdict(row) for row in operators]
    _write_text(directory / OPERATORS, json.dumps(rows, indent=1) + "\n")
    manifest = Manifest(
        kind=kind,
        name=model.name,
        quantkit=__version__,
        engine=present_engine(),
        input=Input(
            input_name, tuple(model.input_shape), layout=model.layout, vocabulary=model.vocabulary, joined=joined
        ),
        outputs=tuple(
            Output(str(tensor), value.shape[1:], scores_kind(graph, tensor))
            for tensor, value in zip(graph.outputs, outputs)
        ),
        class_scores=source.class_scores.yes,
        source=Origin(**asdict(model.source)),
        settings=settings,
        fusion=FusionResult(**asdict(check)),
        agreement=agreement,
        files={path.name: FileEntry(sha256_of(path), path.stat().st_size) for path in sorted(directory.iterdir())},
        sample=sample.origin,
        notes=model.notes,
        step_scores=source.step_scores is not None and source.step_scores.yes,
        states=states,
        version=version_for(states, task, told_corners(model), settings.speed if settings else None, joined),
        task=task,
    )
    _write_text(directory / MANIFEST, manifest_text(manifest))


def _classes(model: Model, shapes: Sequence[tuple[int, ...]]) -> int:
    """How many classes the outputs tell apart."""
    if model.layout in SEQUENCE_LAYOUTS and shapes[0]:
        return shapes[0][-1]
    return class_count(shapes, len(model.labels)) or prod(shapes[0])


def _write_sample(data: np.ndarray, outputs: Sequence[np.ndarray], path: Path) -> None:
    """``input`` and ``output0``, ``output1``, ... with their batch axes of 1."""
    arrays = {f"output{index}": output for index, output in enumerate(outputs)}
    with open(path, "wb") as file:
        write_npz(file, {"input": data, **arrays})


def _write_text(path: Path, text: str) -> None:
    # The same bytes on every system.
    path.write_bytes(text.encode())
