"""Checking an engine: does it compute what the bundle's network computes in MXNet, and in integers?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional

import numpy as np

from quantkit.backends.base import sole_input
from quantkit.backends.one_input import with_one_input
from quantkit.backends.registry import ONNX_ENGINES
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.verify import Check
from quantkit.diagnosis.parity.layers import LayerParity, first_diverging, layer_parity
from quantkit.diagnosis.parity.onnx_file import parse
from quantkit.diagnosis.parity.outputs import (
    LEAST_COSINE,
    LEAST_SCORE,
    MOST_CHANGED,
    Demand,
    OutputParity,
    output_parity,
    parity_of,
)
from quantkit.diagnosis.parity.precision import PrecisionParity, precision_parity
from quantkit.progress import Progress, silent
from quantkit.tasks.agreement import TaskAgreement, agreement_for
from quantkit.units import counted


@dataclass(frozen=True)
class EngineParity:
    """How one engine compares with MXNet.

    ``sample`` is for the bundle's stored sample, ``images`` for other images; if that is None, the sample is judged.
    ``precision`` is None if the engine reports no kernels, ``layers`` if they were not compared.
    """

    engine: str
    version: str
    sample: OutputParity
    images: Optional[OutputParity]
    precision: Optional[PrecisionParity]
    layers: Optional[tuple[LayerParity, ...]]

    @property
    def checks(self) -> tuple[Check, ...]:
        """The verdicts, each with its reason."""
        what, outputs = ("sample", self.sample) if self.images is None else ("outputs", self.images)
        checks = [Check(f"{self.engine} {what}", outputs.ok, _outputs_text(outputs))]
        if self.precision is not None:
            checks.append(Check(f"{self.engine} in INT8", self.precision.ok, _precision_text(self.precision)))
        if self.layers is not None:
            wrong = first_diverging(self.layers)
            checks.append(Check(f"{self.engine} layers", not wrong, _layers_text(self.layers, wrong)))
        return tuple(checks)

    @property
    def ok(self) -> bool:
        """Whether every check succeeded."""
        return all(check.ok for check in self.checks)


def engine_parity(
    bundle: Bundle,
    content: bytes,
    engine: str,
    batches: Optional[Iterable[np.ndarray]],
    batch_size: int,
    layers: bool = False,
    progress: Progress = silent,
) -> EngineParity:
    """Compare an INT8 bundle's ONNX file in an engine with the bundle's network in MXNet.

    Args:
        bundle: the bundle.
        content: the bytes of its ONNX file.
        engine: one of ``ONNX_ENGINES``.
        batches: the network's input, float32, at most ``batch_size`` images each. None compares on the stored sample
            alone; the bundle holds MXNet's outputs for it, so MXNet is not needed.
        batch_size: the size of the largest batch.
        layers: whether to compare layer by layer as well, on the stored sample.
        progress: wraps the walk over the layers.

    Raises:
        EngineMissing: the engine, or the package onnx, is not installed.
        EngineError: an engine cannot run the network.
        ModelError: the ONNX file holds another network.
    """
    chosen, file, sample = ONNX_ENGINES[engine], parse(content), bundle.sample.input
    backend = chosen.backend()
    session = with_one_input(backend.open_session(content), bundle.deployed)
    agreement, class_scores = bundle.manifest.agreement, bundle.manifest.class_scores
    demand = Demand()
    if agreement is not None:
        # An engine's rounding may change as much as INT8 itself does.
        least = min(LEAST_COSINE, *(output.cosine for output in agreement.outputs))
        changed = 0.0 if agreement.top1 is None else 1 - agreement.top1
        known = [score.value for score in agreement.scores[:1] if score.value is not None]
        demand = Demand(least, max(MOST_CHANGED, changed), min([LEAST_SCORE, *known]))
    name = sole_input(session)
    of_task = _task_agreement(bundle)
    # Of one image, a class of few pixels may decide on the score.
    of_lists = of_task if of_task is not None and of_task.unordered else None
    on_sample = parity_of([(bundle.sample.outputs, session.run({name: sample}))], class_scores, demand, of_lists)
    on_images = None
    if batches is not None:
        of_task = _task_agreement(bundle)
        on_images = output_parity(bundle.graph, session, batches, batch_size, class_scores, demand, of_task)
    inputs = bundle.deployed.values(name, sample)
    precision = precision_parity(file, backend.executed_layers(content, inputs)) if backend.rewrites else None
    by_layer = tuple(layer_parity(bundle.network, file, chosen, sample, progress, bundle.deployed)) if layers else None
    return EngineParity(engine, backend.version(), on_sample, on_images, precision, by_layer)


def _task_agreement(bundle: Bundle) -> Optional[TaskAgreement]:
    manifest = bundle.manifest
    shapes = [output.shape for output in manifest.outputs]
    return agreement_for(manifest.task, shapes, manifest.input.shape, manifest.name, bundle.labels)


def _outputs_text(parity: OutputParity) -> str:
    images = counted(parity.images, "image")
    same = images if parity.same is None else f"same top-1 as MXNet for {parity.same} of {images}"
    if parity.score is not None and parity.score.value is not None:
        same = f"{parity.score.text} ({100 * parity.demand.score:.4g} % is needed) on {images}"
    if parity.boxes is not None:
        same += f", {parity.boxes.text(parity.demand.overlap)}"
    if parity.judged_by_score:
        return same
    return (
        f"cosine {parity.cosine:.5f} ({parity.demand.cosine:.5g} is needed), {same}, "
        f"at most {parity.steps:.2g} steps of 8 bits away"
    )


def _precision_text(parity: PrecisionParity) -> str:
    ran = ", ".join(f"{count} {kernel}" for kernel, count in parity.kernels.items()) or "no layer in integers"
    planned = f"; in FP32 as planned: {', '.join(parity.planned)}" if parity.planned else ""
    left = f"; left in FP32: {', '.join(parity.left)}" if parity.left else ", no layer left in FP32"
    return f"{ran}{left}{planned}"


def _layers_text(layers: tuple[LayerParity, ...], wrong: str) -> str:
    if wrong:
        layer = next(each for each in layers if each.tensor == wrong)
        return (
            f"{wrong!r} ({layer.operator}) is the first that differs: {100 * layer.alone:.2g} % of its values by more "
            "than one step where it reads what it does in MXNet"
        )
    most = max((layer.alone for layer in layers), default=0.0)
    return (
        f"{len(layers)} compared; of each alone, at most {100 * most:.2g} % of the values differ by more than one step"
    )
