"""The forms of a network that are measured: as it is, fused, and INT8, for MXNet and for other engines."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Union

import numpy as np

from quantkit.backends.mxnet.stock import stock_int8_graph
from quantkit.benchmark.workloads.exported import INT8_FORMS, MODES, fp32_file, int8_file, quantized_by_peer
from quantkit.benchmark.workloads.images import image_batch
from quantkit.benchmark.workloads.network import Checkpoint
from quantkit.benchmark.workloads.older_operators import with_older_operators
from quantkit.benchmark.workloads.store import Made, Stored, stored_checkpoint
from quantkit.bundle.engine import present_engine
from quantkit.bundle.manifest import AgreementResult
from quantkit.bundle.quantized_model import QuantizedModel, lower, measure_agreement
from quantkit.data.sample_noun import sample_noun
from quantkit.evaluation.agreement import Agreement
from quantkit.files.code import code_hash
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.fused_model import FusedModel, fuse_model
from quantkit.models.model import Model
from quantkit.progress import Tell
from quantkit.quantization.algorithms.stage import apply_algorithms, plan
from quantkit.quantization.calibrate import calibrate
from quantkit.units import counted

_CALIBRATION_IMAGES = 10

# What MXNet's own quantizer leaves in FP32: MXNet 1.5 has no INT8 batch normalization.
_STOCK_INT8: Mapping[str, tuple[str, ...]] = {"stock-int8": (), "stock-int8-1.5": ("BatchNorm",)}

BY_OTHERS = frozenset((*_STOCK_INT8, *MODES))
"""The forms that other quantizers make, which may fail."""

# The packages that decide how a network is fused and quantized.
_MAKERS = ("ir", "formats", "backends", "fusion", "calibration", "quantization", "lowering", "bundle")


@dataclass(frozen=True, eq=False)
class Forms:
    """The forms of one model; each is made when first asked for, unless an earlier run has left it on disk."""

    model: Model
    data: Any
    tell: Tell

    def stored(self, form: str) -> Stored:
        """The network in a form of ``benchmark.variants`` (stock is fp32).

        Raises:
            FusionError: the fused network computes something else.
            EngineError: this environment's engine cannot run INT8, which is compared with FP32, or MXNet's own
                quantizer failed.
            PeerError: another quantizer failed.
            QuantkitError: the files cannot be written, or another quantizer cannot be had.
        """
        makers: Mapping[str, Callable[[], Stored]] = {
            "fused": lambda: self._checkpoint("fused", self._fused_form, *self._made_by),
            "int8": lambda: self._checkpoint("int8", self._int8_form, *self._quantized_by),
            **{name: partial(self._stock_int8, name, in_float) for name, in_float in _STOCK_INT8.items()},
            "onnx": lambda: Stored(self._onnx, {}),
            **dict.fromkeys(INT8_FORMS, lambda: Stored(self._int8_onnx(form), {})),
            **dict.fromkeys(MODES, lambda: Stored(self._by_peer(form), {})),
        }
        return makers.get(form, self._fp32)()

    def _fp32(self) -> Stored:
        graph = with_older_operators(self.model.graph)
        content = self._content if graph is self.model.graph else nnvm.sha256_of(graph)
        key = hashlib.sha256(content.encode()).hexdigest()
        return stored_checkpoint(f"{self.model.name}-fp32", key, lambda: Made(graph, {}), self.tell)

    def _checkpoint(self, form: str, make: Callable[[], Made], *ingredients: str) -> Stored:
        return stored_checkpoint(f"{self.model.name}-{form}", self._key(*ingredients), make, self.tell)

    def _key(self, *ingredients: str) -> str:
        return hashlib.sha256("\n".join((self._content, *ingredients)).encode()).hexdigest()

    @property
    def _made_by(self) -> list[str]:
        return [_makers_hash(), repr(present_engine())]

    @property
    def _quantized_by(self) -> list[str]:
        return [*self._made_by, *self.model.exclude, hashlib.sha256(self._images.tobytes()).hexdigest()]

    @property
    def _onnx(self) -> Checkpoint:
        return fp32_file(self.model, self._key(repr(self.model.input_shape)), self.tell)

    def _int8_onnx(self, form: str) -> Checkpoint:
        def bundle(folder: Path) -> Path:
            return self._quantized.save(folder / "bundle")

        return int8_file(form, self.model.name, self._key(*self._quantized_by), bundle, self.tell)

    def _by_peer(self, form: str) -> Checkpoint:
        return quantized_by_peer(form, self.model.name, self._onnx, self._images, self.tell)

    @cached_property
    def _content(self) -> str:
        return nnvm.sha256_of(self.model.graph)

    @cached_property
    def _images(self) -> np.ndarray:
        return image_batch(self.data, self.model.preparation, self.model.input_shape, _CALIBRATION_IMAGES)

    @property
    def _counted(self) -> str:
        """The number of samples that INT8 forms are calibrated with."""
        return counted(_CALIBRATION_IMAGES, sample_noun(self.model.input_shape))

    @cached_property
    def _fused(self) -> FusedModel:
        self.tell(f"{self.model.name}: fusing")
        return fuse_model(self.model, self._images)

    def _fused_form(self) -> Made:
        return Made(self._fused.graph, {})

    @cached_property
    def _quantized(self) -> QuantizedModel:
        source = self._fused
        self.tell(f"{self.model.name}: quantizing with {self._counted}")
        table = calibrate(source, self._images, _CALIBRATION_IMAGES)
        adjusted = apply_algorithms(source, table, plan(source, table), self._images)
        return measure_agreement(lower(source, table, adjusted), self._images)

    def _int8_form(self) -> Made:
        agreement = self._quantized.agreement
        return Made(self._quantized.graph, {} if agreement is None else known_accuracy(agreement))

    def _stock_int8(self, form: str, in_float: Sequence[str]) -> Stored:
        def make() -> Made:
            self.tell(f"{self.model.name}: quantizing with MXNet's own quantizer and {self._counted}")
            return Made(stock_int8_graph(self.model.graph, self._images, "naive", in_float), {})

        return self._checkpoint(form, make, *self._quantized_by)


def known_accuracy(agreement: Union[Agreement, AgreementResult]) -> dict[str, float]:
    """Figures of accuracy by names that say what they were measured on: INT8 against FP32 on calibration images.

    Of detectors and the like there is the first score of their task; of other outputs that are no class scores, the
    lowest cosine of any alone.
    """
    first = agreement.scores[0] if agreement.scores else None
    if first is not None and first.value is not None:
        return {f"{first.name} on {agreement.images} calibration images": first.value}
    if agreement.top1 is None:
        return {"cosine": min(output.cosine for output in agreement.outputs)}
    return {f"agreement on {agreement.images} calibration images": agreement.top1, "cosine": agreement.cosine}


def _makers_hash() -> str:
    """A hash of the code that fuses and quantizes: what other code made is made anew."""
    return code_hash(*_MAKERS)
