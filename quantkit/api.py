"""What people call: the stages in a row, and the evaluation of what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Union

from quantkit.backends.mxnet.instructions import check_vnni
from quantkit.bundle.export import export_fused_onnx, export_int8_onnx
from quantkit.bundle.export import export_onnx as export_fp32_onnx
from quantkit.bundle.network import network_in, network_of
from quantkit.bundle.quantized_model import QuantizedModel, lower, measure_agreement
from quantkit.bundle.read import read_bundle
from quantkit.bundle.summary import TableOrigin
from quantkit.calibration.recipes import Recipe
from quantkit.calibration.table import CalibrationTable
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.samples import Samples
from quantkit.data.sources import load_data
from quantkit.errors import UserError
from quantkit.evaluation.evaluate import BATCH_SIZE, Evaluation, Role, evaluate_networks
from quantkit.evaluation.network import Network
from quantkit.files.bundles import is_bundle
from quantkit.formats.onnx.writing.model import DEFAULT_OPSET
from quantkit.fusion.fused_model import FusedModel, fuse_model
from quantkit.kinds import of_kind
from quantkit.lowering.onnx_lstm import LstmForm
from quantkit.mixed_precision.journal import Journal
from quantkit.mixed_precision.never_slower import all_in_fp32, prove_speed, search_speed, with_proof
from quantkit.mixed_precision.search import SearchResult, check_request, search_mixed_precision
from quantkit.models.dataset import CalibrationData, dataset
from quantkit.models.load import NetworkSpec, load_model
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.quantization.algorithms.stage import apply_algorithms, plan
from quantkit.quantization.calibrate import calibrate, shipped_recipe
from quantkit.quantization.config import DEFAULT_CONFIG, QuantizationConfig
from quantkit.quantization.exclude import excluded_nodes
from quantkit.quantization.goal import MixedPrecision
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.reduced_range import ReduceRange
from quantkit.quantization.speed import SpeedProof

Evaluated = Union[Model, QuantizedModel, NetworkSpec]
"""What can be evaluated: a network in any form, or a bundle's directory."""


@dataclass(frozen=True, eq=False)
class CalibrationSource:
    """Where the ranges of a quantization are from.

    Attributes:
        origin: a calibration in this run, the caller's table, or one that ships for these weights.
        data: what algorithms and the comparison with FP32 look at.
        recipe: how the table that ships was made; None for others.
    """

    origin: TableOrigin
    data: CalibrationDataset
    recipe: Optional[Recipe] = None


@dataclass(frozen=True, eq=False)
class Quantized:
    """An INT8 network, where its ranges are from, and the search for layers to keep in FP32 where a goal was given."""

    network: QuantizedModel
    calibration: CalibrationSource
    search: Optional[SearchResult]


def quantize(
    model: Union[Model, NetworkSpec],
    calibration_data: Optional[CalibrationData] = None,
    config: QuantizationConfig = DEFAULT_CONFIG,
    *,
    evaluation_data: Optional[CalibrationData] = None,
    table: Optional[CalibrationTable] = None,
    progress: Progress = silent,
) -> QuantizedModel:
    """Quantize a network to INT8 and compare it with FP32.

    Args:
        model: a Model, or anything that ``load_model`` takes.
        calibration_data: what to calibrate with, adjust and compare on; None: the calibration table that ships for just
            these weights where there is one, else the built-in photographs.
        config: how to quantize.
        evaluation_data: what to measure the drop of accuracy on, where ``config.goal`` bounds it: other samples than
            those that are calibrated with.
        table: an earlier calibration of the same network, instead of a new one.
        progress: wraps streams of batches.

    Raises:
        UserError: the configuration does not fit the network, a goal lacks its evaluation data, or an argument is of
            another kind.
        ModelError: the network cannot be loaded, or the table belongs to another one.
        DataError: data cannot be used.
        FusionError: the fused network computes something else than the original.
        EngineError: this environment's engine cannot run INT8, or not in this process.
    """
    of_kind("config", config, QuantizationConfig, "such as QuantizationConfig.read('config.toml')")
    if table is not None:
        of_kind("table", table, CalibrationTable, "which calibrate() and read_table() return")
    loaded = model if isinstance(model, Model) else load_model(model)
    return run_stages(loaded, calibration_data, config, evaluation_data, table, progress).network


def run_stages(
    model: Model,
    calibration_data: Optional[CalibrationData],
    config: QuantizationConfig,
    evaluation_data: Optional[CalibrationData] = None,
    table: Optional[CalibrationTable] = None,
    progress: Progress = silent,
    calibrating: Callable[[CalibrationSource], object] = lambda calibration: None,
    searching: Callable[[Journal], object] = lambda journal: None,
) -> Quantized:
    """Quantize as ``quantize`` does, telling what happens.

    Args:
        model: the network.
        calibration_data: see ``quantize``, as the next four.
        config: how to quantize.
        evaluation_data: what to measure a drop of accuracy on.
        table: an earlier calibration.
        progress: wraps streams of batches.
        calibrating: is told where ranges will be from, before they are measured.
        searching: is given the journal when a search begins.

    Raises:
        QuantkitError: see ``quantize``.
    """
    if config.goal is None and evaluation_data is not None:
        raise UserError(
            "evaluation_data are for a goal, and the configuration has none; give goal=Goal(max_drop=0.3), say, or "
            "leave the data out and call evaluate()"
        )
    if config.goal is not None:
        check_request(model, config.goal, evaluation_data, config.search_minutes)
    data = dataset(model, "builtin" if calibration_data is None else calibration_data)
    source = fuse_model(model, data)
    excluded_nodes(source.fused, config.exclude)
    calibration = _calibration(source, data, config.method, calibration_data is None, table)
    calibrating(calibration)
    if table is None and calibration.recipe is not None:
        table = calibration.recipe.table
    data = calibration.data
    if table is None:
        table = calibrate(source, data, config.num_samples, config.method, progress)
    decided = plan(source, table, config.exclude, config.dtype)
    # Before the work that ends with running the network in INT8.
    check_vnni(QuantizedGraph(source.fused.graph, decided).needing_vnni)
    ranged = _Ranged(source, table, data, config, progress)
    if not config.never_slower:
        network, search = ranged.quantized(decided, evaluation_data, searching)
        return Quantized(network, calibration, search)
    speed = search_speed(source, decided, config.search_minutes, config.speed_batch, progress)
    network, search = ranged.quantized(speed.plan, evaluation_data, searching)
    proof = prove_speed(network, speed, config.speed_batch)
    if not proof.faster:
        network, search = ranged.in_fp32(all_in_fp32(network.network, proof), proof, network.mixed), None
    return Quantized(with_proof(network, proof, config.search_minutes), calibration, search)


@dataclass(frozen=True, eq=False)
class _Ranged:
    """A fused network with its ranges, to be quantized by one plan or another."""

    source: FusedModel
    table: CalibrationTable
    data: CalibrationDataset
    config: QuantizationConfig
    progress: Progress

    def quantized(
        self,
        decided: QuantizationPlan,
        evaluation_data: Optional[CalibrationData],
        searching: Callable[[Journal], object],
    ) -> tuple[QuantizedModel, Optional[SearchResult]]:
        """The network of a plan, or what a search makes of it where there is a goal."""
        config = self.config
        if config.goal is None or not any(decision.is_int8 for decision in decided.decisions.values()):
            return self._lowered(decided), None
        search = search_mixed_precision(
            self.source,
            self.table,
            decided,
            config.goal,
            evaluation_data,
            self.data,
            config.wanted_algorithms,
            config.search_minutes,
            self.progress,
            searching,
        )
        return search.network, search

    def in_fp32(self, decided: QuantizationPlan, proof: SpeedProof, mixed: Optional[MixedPrecision]) -> QuantizedModel:
        """The network of a plan without INT8, which meets every goal of accuracy."""
        network, goal = self._lowered(decided), self.config.goal
        if goal is None:
            return network
        met = goal.fast(proof.milliseconds["fp32"] / proof.milliseconds["fp32_fused"])
        record = mixed or MixedPrecision(goal.max_drop, goal.min_speedup, met, (), None, None, 0, self.data.name)
        drop = None if record.drop is None else 0.0
        return replace(network, config=replace(network.config, goal=goal), mixed=replace(record, met=met, drop=drop))

    def _lowered(self, decided: QuantizationPlan) -> QuantizedModel:
        adjusted = apply_algorithms(
            self.source, self.table, decided, self.data, self.config.wanted_algorithms, self.progress
        )
        return measure_agreement(lower(self.source, self.table, adjusted), self.data, self.progress)


def _calibration(
    source: FusedModel, data: CalibrationDataset, method: str, may_ship: bool, table: Optional[CalibrationTable]
) -> CalibrationSource:
    if table is not None:
        return CalibrationSource("given", data)
    recipe = shipped_recipe(source, method) if may_ship else None
    if recipe is None:
        return CalibrationSource("measured", data)
    return CalibrationSource("shipped", dataset(source.model, recipe.samples), recipe)


def evaluate(
    network: Evaluated,
    evaluation_data: CalibrationData,
    reference: Optional[Evaluated] = None,
    *,
    against: Optional[Evaluated] = None,
    num_samples: Optional[int] = None,
    batch_size: int = BATCH_SIZE,
    class_scores: Optional[bool] = None,
    progress: Progress = silent,
) -> Evaluation:
    """Measure a network's accuracy, and its agreement with a reference.

    Args:
        network: a bundle's directory, a Model, a QuantizedModel, or anything that ``load_model`` takes.
        evaluation_data: images, with labels for accuracy; without, a reference is needed. A ``CalibrationDataset`` is
            used as it is, by networks with its preprocessing.
        reference: what the network should compute: the FP32 network.
        against: another form of the same network: which of the two is better?
        num_samples: how many of the images, the first; None: all.
        batch_size: how many are run at once.
        class_scores: whether the first output is a row of class scores, where it would be judged wrongly.
        progress: wraps the stream of batches.

    Raises:
        UserError: a network cannot be loaded, or they cannot be compared; or the dataset is preprocessed for another.
        BundleError: a bundle is damaged.
        DataError: the images cannot be used, or there is nothing to measure on them.
    """
    named: dict[Role, Optional[Evaluated]] = {"network": network, "reference": reference, "against": against}
    networks = {role: _network(each) for role, each in named.items() if each is not None}
    samples = _samples(networks["network"], evaluation_data)
    return evaluate_networks(networks, samples, batch_size, num_samples, progress, class_scores)


def _network(spec: Evaluated) -> Network:
    if isinstance(spec, QuantizedModel):
        return replace(network_of(spec.source.model), kind="int8", graph=spec.graph)
    if is_bundle(spec):
        return network_in(Path(spec))
    return network_of(spec if isinstance(spec, Model) else load_model(spec))


def _samples(network: Network, data: CalibrationData) -> Samples:
    if not isinstance(data, CalibrationDataset):
        return load_data(data)
    data.check_form(network.preparation, network.input_shape, network.name)
    return data.samples


def export_onnx(
    network: Evaluated,
    path: Union[str, Path],
    opset: int = DEFAULT_OPSET,
    reduce_range: ReduceRange = "none",
    lstm: LstmForm = "qdq",
) -> None:
    """Write a network as an ONNX file: INT8 networks in QDQ form, others in FP32 as they are, unfused.

    Args:
        network: a bundle's directory, a QuantizedModel, a Model, or anything that ``load_model`` takes.
        path: where to.
        opset: the version of ONNX's operators, 13 to 21.
        reduce_range: which weights of an INT8 network have fewer than 8 bits, so that sums do not overflow on
            processors without VNNI. ``none``; ``auto``: those of the channels where sums can overflow, by as little as
            it takes; ``all``: all weights, 7 bits.
        lstm: how INT8 LSTM layers are written. ``qdq``: in ONNX's own operators, which OpenVINO runs in INT8 and other
            engines in FP32; ``dynamic``: as ``DynamicQuantizeLSTM``, which ONNX Runtime alone runs, in INT8.

    Raises:
        ModelError: an operator has no ONNX form.
        UserError: the opset or the form of LSTM layers is unknown, or the package ``onnx`` is not installed.
        BundleError: a bundle is damaged.
        QuantkitError: the file cannot be written.
    """
    path = Path(path)
    if isinstance(network, QuantizedModel):
        network.to_onnx(path, opset, reduce_range, lstm)
    elif is_bundle(network):
        bundle = read_bundle(Path(network))
        if bundle.manifest.kind == "int8":
            export_int8_onnx(bundle, path, opset, reduce_range, lstm)
        else:
            export_fused_onnx(bundle, path, opset)
    else:
        export_fp32_onnx(network if isinstance(network, Model) else load_model(network), path, opset)
