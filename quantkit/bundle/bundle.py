"""An open bundle, whose large files are read when they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

import numpy as np
from pydantic import TypeAdapter, ValidationError

from quantkit.backends.mxnet.checkpoint import read_checkpoint
from quantkit.bundle.configuration import configuration_problem
from quantkit.bundle.file_names import (
    CARD,
    CONFIG,
    FUSED_PARAMS,
    FUSED_SYMBOL,
    ONNX,
    ONNX_FILES,
    OPERATORS,
    PARAMS,
    QUANTIZATION,
    SAMPLE,
    SIGNALS,
    SYMBOL,
    TABLE,
    TRAINING,
)
from quantkit.bundle.manifest import Manifest
from quantkit.bundle.manifest_file import manifest_text, read_manifest
from quantkit.bundle.quantization import network_difference, read_quantized
from quantkit.bundle.training_record import read_training_record
from quantkit.calibration.table import CalibrationTable, read_table
from quantkit.data.boxes import BoxCorners
from quantkit.data.joined_inputs import JoinedInputs
from quantkit.data.preparation import Preparation
from quantkit.data.preprocess import Preprocess
from quantkit.drift.reference import DriftReference, read_reference
from quantkit.errors import BundleError, DataError, ModelError, UserError
from quantkit.files.schema import Many, first_fault
from quantkit.files.text import MEBIBYTE, read_bytes
from quantkit.formats.npz import read_npz
from quantkit.formats.onnx.parts import parts_problem
from quantkit.formats.onnx.writing.conversion import ENGINE_OPERATORS, WRITTEN_OPERATORS
from quantkit.formats.onnx.written_form import written_problem
from quantkit.fusion.float_symbol import float_graph, fused_graph
from quantkit.ir.deployed_form import DeployedForm
from quantkit.ir.graph import Graph
from quantkit.ir.handed_states import HandedState
from quantkit.models.card import read_card
from quantkit.models.model import Model, Source
from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.explain import Explanation
from quantkit.quantization.plan import float_plan
from quantkit.quantization.quantized_graph import QuantizedGraph

if TYPE_CHECKING:
    from quantkit.lowering.onnx_lstm import LstmForm

_Read = TypeVar("_Read")

_LARGEST_OPERATORS = 64 * MEBIBYTE
# Protocol buffers are limited to 2 GiB.
_LARGEST_ONNX = 2048 * MEBIBYTE


@dataclass(frozen=True)
class Sample:
    """The stored sample: an input and the network's outputs for it, float32, with batch axes of 1."""

    input: np.ndarray
    outputs: tuple[np.ndarray, ...]


@dataclass(frozen=True, eq=False)
class Bundle:
    """A bundle whose files have the hashes in its manifest; large files are read on first use.

    If another bundle has replaced it by then, reading raises a BundleError, so the files of two bundles never mix.
    ``labels`` is empty if the names of the classes are not known; ``preprocess`` is None if it is not known. ``states``
    are those that the network hands on from one piece of a sequence to the next. ``box_corners`` is what the corners of
    a detector's boxes are.
    """

    directory: Path
    manifest: Manifest
    preprocess: Optional[Preprocess]
    labels: tuple[str, ...]
    states: tuple[HandedState, ...] = ()
    box_corners: BoxCorners = "edges"

    @cached_property
    def sha256(self) -> str:
        """The bundle's hash: that of its manifest, which holds the hashes of its files."""
        return hashlib.sha256(manifest_text(self.manifest).encode()).hexdigest()

    @cached_property
    def graph(self) -> Graph:
        """The network as stock MXNet runs it, from states of zero.

        Raises:
            BundleError: symbol and parameters do not form a network with the manifest's inputs.
        """
        return self._unmixed(self._read_graph)

    def _read_graph(self) -> Graph:
        try:
            graph = read_checkpoint(self.directory / SYMBOL, self.directory / PARAMS)
            data = self.manifest.input
            wanted = self.deployed.inputs(data.name)
            if graph.inputs != wanted:
                raise BundleError(
                    f"bundle {self.directory}: {SYMBOL} with {PARAMS} reads {', '.join(map(repr, graph.inputs))}, "
                    f"the manifest says {', '.join(map(repr, wanted))}; write the bundle again"
                )
            return self.deployed.measured(graph, data.name, 1 + len(data.shape))
        except (ModelError, OSError, ValueError) as error:
            raise damaged(self.directory, f"{SYMBOL} with {PARAMS}", error) from error

    @cached_property
    def network(self) -> QuantizedGraph:
        """The fused network and how it is quantized; in an FP32 bundle, all of it stays in FP32.

        Raises:
            BundleError: it contradicts itself, or does not lower to ``graph``.
        """
        return self._unmixed(self._read_network)

    def _read_network(self) -> QuantizedGraph:
        is_fp32 = self.manifest.kind == "fp32"
        what = SYMBOL if is_fp32 else f"{QUANTIZATION} with {FUSED_SYMBOL} and {FUSED_PARAMS}"
        try:
            if is_fp32:
                fused = fused_graph(self.graph)
                if problem := network_difference(float_graph(fused), self.graph):
                    raise ModelError(f"it is not a network that quantkit fused: {problem}")
                return QuantizedGraph(fused, float_plan(fused))
            return read_quantized(self.directory, self.graph)
        except ModelError as error:
            raise damaged(self.directory, what, error) from error

    @property
    def model(self) -> Model:
        """The network with its preprocessing, labels and provenance."""
        manifest, source = self.manifest, self.manifest.source
        return Model(
            manifest.name,
            self.graph,
            manifest.input.shape,
            self.preprocess,
            Source(source.network, source.weights, source.location, source.sha256),
            self.labels,
            class_scores=manifest.class_scores or manifest.step_scores,
            vocabulary=manifest.input.vocabulary,
            notes=manifest.notes,
            states=self.states,
            task=manifest.task,
            box_corners=self.box_corners,
            joined=self.joined,
        )

    @property
    def preparation(self) -> Preparation:
        """How samples become the network's input."""
        return self.joined or self.manifest.input.vocabulary or self.preprocess

    @property
    def deployed(self) -> DeployedForm:
        """What its files read."""
        return DeployedForm(self.states, self.joined.shapes if self.joined else {})

    @property
    def input_shapes(self) -> Union[tuple[int, ...], dict[str, tuple[int, ...]]]:
        """The shape of the network's input, or of its several inputs by their names, as ``load_model`` takes them."""
        return self.joined.shapes if self.joined else self.manifest.input.shape

    @property
    def joined(self) -> Optional[JoinedInputs]:
        """The network's inputs where it has several; None where it has one."""
        return self.manifest.input.several

    @cached_property
    def table(self) -> Optional[CalibrationTable]:
        """The calibration table; None in an FP32 bundle.

        Raises:
            BundleError: the file holds no valid table.
        """
        return self._unmixed(self._read_table)

    def _read_table(self) -> Optional[CalibrationTable]:
        if TABLE not in self.manifest.files:
            return None
        try:
            return read_table(self.directory / TABLE)
        except UserError as error:
            raise damaged(self.directory, TABLE, error) from error

    @cached_property
    def config(self) -> Optional[QuantizationConfig]:
        """The configuration that the network was quantized with; None in an FP32 bundle.

        Raises:
            BundleError: the file holds no valid configuration, or one that contradicts the manifest.
        """
        return self._unmixed(self._read_config)

    def _read_config(self) -> Optional[QuantizationConfig]:
        if self.manifest.settings is None:
            return None
        try:
            config = QuantizationConfig.read(self.directory / CONFIG)
            excluded = read_card(self.directory / CARD).exclude
        except (UserError, ModelError) as error:
            raise damaged(self.directory, CONFIG, error) from error
        if problem := configuration_problem(config, self.manifest.settings, excluded):
            raise damaged(self.directory, CONFIG, f"{problem}; write the bundle again")
        return config

    @property
    def holds_onnx(self) -> bool:
        """Whether the bundle holds the network as an ONNX file."""
        return ONNX in self.manifest.files

    def onnx(self, lstm: LstmForm = "qdq") -> Optional[bytes]:
        """The network's ONNX file with INT8 LSTM layers in this form, or the only one; None if the bundle holds none.

        Raises:
            BundleError: it cannot be read, has more parts than any network, or is not as quantkit writes ONNX files.
        """
        held = [name for name in (ONNX_FILES[lstm], ONNX) if name in self.manifest.files]
        return self._unmixed(partial(self._read_onnx, held[0])) if held else None

    def _read_onnx(self, name: str) -> bytes:
        try:
            content = read_bytes(self.directory / name, _LARGEST_ONNX)
        except OSError as error:
            raise damaged(self.directory, name, error) from error
        if problem := parts_problem(content) or written_problem(content, WRITTEN_OPERATORS, ENGINE_OPERATORS):
            raise BundleError(f"bundle {self.directory}: {name} {problem}; write the bundle again")
        return content

    @property
    def operators(self) -> tuple[Explanation, ...]:
        """What became of each operator of the original network.

        Raises:
            BundleError: the file holds no valid list.
        """
        return self._unmixed(self._read_operators)

    def _read_operators(self) -> tuple[Explanation, ...]:
        try:
            content = read_bytes(self.directory / OPERATORS, _LARGEST_OPERATORS)
            return TypeAdapter(Many[Explanation]).validate_json(content)
        except ValidationError as error:
            where, what = first_fault(error)
            raise damaged(self.directory, OPERATORS, f"{where or 'its beginning'}: {what}") from error
        except OSError as error:
            raise damaged(self.directory, OPERATORS, error) from error

    @property
    def sample(self) -> Sample:
        """The stored sample.

        Raises:
            BundleError: the file holds no sample that fits the manifest.
        """
        return self._unmixed(self._read_sample)

    def _read_sample(self) -> Sample:
        try:
            arrays = read_npz(self.directory / SAMPLE)
        except DataError as error:
            raise damaged(self.directory, SAMPLE, error) from error
        shapes = {f"output{index}": output.shape for index, output in enumerate(self.manifest.outputs)}
        shapes["input"] = self.manifest.input.shape
        stored = {name: value.shape for name, value in arrays.items() if value.dtype == np.float32}
        if stored != {name: (1, *shape) for name, shape in shapes.items()}:
            raise BundleError(f"{self.directory / SAMPLE} does not fit the manifest: it holds {stored}")
        return Sample(arrays["input"], tuple(arrays[f"output{index}"] for index in range(len(shapes) - 1)))

    @cached_property
    def drift(self) -> Optional[DriftReference]:
        """The signals of typical samples; None in bundles of kind ``fp32``, and where the samples were not typical.

        Raises:
            BundleError: the file holds something else.
        """
        return self._unmixed(self._read_drift) if SIGNALS in self.manifest.files else None

    def _read_drift(self) -> DriftReference:
        try:
            return read_reference(self.directory / SIGNALS)
        except DataError as error:
            raise damaged(self.directory, SIGNALS, error) from error

    @property
    def training(self) -> Optional[Mapping[str, Any]]:
        """How the network was trained with its quantization, as JSON values; None where it was not.

        Raises:
            BundleError: the file holds something else.
        """
        return self._unmixed(self._read_training) if TRAINING in self.manifest.files else None

    def _read_training(self) -> Mapping[str, Any]:
        try:
            return read_training_record(self.directory / TRAINING)
        except DataError as error:
            raise damaged(self.directory, TRAINING, error) from error

    def _unmixed(self, read: Callable[[], _Read]) -> _Read:
        """The result of ``read``, if the files still are this bundle's afterwards."""
        try:
            content = read()
        except BundleError:
            self._check_not_replaced()
            raise
        self._check_not_replaced()
        return content

    def _check_not_replaced(self) -> None:
        if read_manifest(self.directory).files != self.manifest.files:
            raise BundleError(f"{self.directory} was replaced by another bundle while it was read; begin again")


def damaged(directory: Path, what: str, error: Union[Exception, str]) -> BundleError:
    """The error that names the part of a bundle that cannot be used."""
    return BundleError(f"bundle {directory}: {what} cannot be used: {error}")
