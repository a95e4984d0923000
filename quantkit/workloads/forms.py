"""The forms of a network that are measured: as it is, fused, and INT8."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import quantkit.pipeline
from quantkit.bundle.engine import present_engine
from quantkit.models.model import Model
from quantkit.pipeline import FusedModel, calibrate, emit, fuse_model, plan, recover
from quantkit.workloads.images import image_batch
from quantkit.workloads.store import Made, Stored, Tell, content_hash, stored_checkpoint

_CALIBRATION_IMAGES = 10

# The rooms that decide how a network is fused and quantized.
_MAKERS = ("graph", "engine", "fusion", "calibration", "quantization", "emission", "recovery")


@dataclass(frozen=True, eq=False)
class Forms:
    """The forms of one model; each is made when first asked for, unless an earlier run has left it on disk."""

    model: Model
    data: Any
    tell: Tell

    def stored(self, variant: str) -> Stored:
        """The checkpoint of a variant: fp32 (which stock is, too), fused or int8.

        Raises:
            FusionError: the fused network computes something else.
            EngineError: this environment's engine cannot run INT8, which is compared with FP32.
            QuantkitError: the checkpoint cannot be written.
        """
        makers: Mapping[str, Callable[[], Made]] = {"fused": self._fused_form, "int8": self._int8_form}
        if variant not in makers:
            return self._stored("fp32", lambda: Made(self.model.graph, {}))
        ingredients = [_makers_hash(), repr(present_engine())]
        if variant == "int8":
            ingredients += [*self.model.exclude, hashlib.sha256(self._images.tobytes()).hexdigest()]
        return self._stored(variant, makers[variant], *ingredients)

    def _stored(self, form: str, make: Callable[[], Made], *ingredients: str) -> Stored:
        key = hashlib.sha256("\n".join((self._content, *ingredients)).encode()).hexdigest()
        return stored_checkpoint(f"{self.model.name}-{form}", key, make, self.tell)

    @cached_property
    def _content(self) -> str:
        return content_hash(self.model.graph)

    @cached_property
    def _images(self) -> np.ndarray:
        return image_batch(self.data, self.model.preprocess, self.model.input_shape, _CALIBRATION_IMAGES)

    @cached_property
    def _fused(self) -> FusedModel:
        self.tell(f"{self.model.name}: fusing")
        return fuse_model(self.model, self._images)

    def _fused_form(self) -> Made:
        return Made(self._fused.graph, {})

    def _int8_form(self) -> Made:
        source = self._fused
        self.tell(f"{self.model.name}: quantizing with {_CALIBRATION_IMAGES} images")
        table = calibrate(source, self._images, _CALIBRATION_IMAGES)
        recovered = recover(source, table, plan(source, table), self._images)
        quantized = emit(source, table, recovered, self._images)
        found = quantized.agreement
        return Made(quantized.graph, known_accuracy(found.top1, found.cosine, found.images))


def known_accuracy(agreement: float, cosine: float, images: int) -> dict[str, float]:
    """Figures of accuracy by names that say what they were measured on: INT8 against FP32 on calibration images."""
    return {f"agreement on {images} calibration images": agreement, "cosine": cosine}


def _makers_hash() -> str:
    """A hash of the code that fuses and quantizes: what other code made is made anew."""
    pipeline = Path(quantkit.pipeline.__file__)
    sources = [path for room in _MAKERS for path in sorted((pipeline.parent / room).glob("*.py"))]
    digest = hashlib.sha256()
    for path in (*sources, pipeline):
        digest.update(path.read_bytes())
    return digest.hexdigest()
