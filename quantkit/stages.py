"""The stages in a row: a network is fused, calibrated, planned, adjusted, lowered, and compared with FP32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Optional

from quantkit.backends.mxnet.instructions import check_vnni
from quantkit.bundle.quantized_model import QuantizedModel, lower, measure_agreement
from quantkit.bundle.summary import TableOrigin
from quantkit.calibration.recipes import Recipe
from quantkit.calibration.table import CalibrationTable
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.dataset import CalibrationDataset
from quantkit.errors import UserError
from quantkit.evaluation.evaluate import BATCH_SIZE
from quantkit.fusion.fused_model import FusedModel, fuse_model
from quantkit.mixed_precision.journal import Journal
from quantkit.mixed_precision.never_slower import all_in_fp32, prove_speed, search_speed, with_proof
from quantkit.mixed_precision.search import SearchResult, check_request, search_mixed_precision
from quantkit.models.dataset import CalibrationData, dataset
from quantkit.models.layout import FEATURE_LAYOUTS
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.quantization.algorithms.stage import apply_algorithms, plan
from quantkit.quantization.calibrate import calibrate, shipped_recipe
from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.exclude import excluded_nodes
from quantkit.quantization.feature_scales import warn_of_feature_scales
from quantkit.quantization.goal import MixedPrecision
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.quantization.speed import SpeedProof
from quantkit.tasks.agreement import agreement_of
from quantkit.tasks.choose import judged_task


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


def run_stages(
    model: Model,
    calibration_data: Optional[CalibrationData],
    config: QuantizationConfig,
    evaluation_data: Optional[CalibrationData] = None,
    table: Optional[CalibrationTable] = None,
    progress: Progress = silent,
    calibrating: Callable[[CalibrationSource], object] = lambda calibration: None,
    searching: Callable[[Journal], object] = lambda journal: None,
    executor: Executor = in_this_process,
    skip_bad: int = 0,
) -> Quantized:
    """Quantize as ``api.quantize`` does, telling what happens.

    Args:
        model: the network.
        calibration_data: see ``api.quantize``, as the next four.
        config: how to quantize.
        evaluation_data: what to measure a drop of accuracy on.
        table: an earlier calibration.
        progress: wraps streams of batches.
        calibrating: is told where ranges will be from, before they are measured.
        searching: is given the journal when a search begins.
        executor: where networks run over many samples: in this process, or elsewhere.
        skip_bad: see ``api.quantize``.

    Raises:
        QuantkitError: see ``api.quantize``.
    """
    if config.goal is None and evaluation_data is not None:
        raise UserError(
            "evaluation_data are for a goal, and the configuration has none; give goal=Goal(max_drop=0.3), say, or "
            "leave the data out and call evaluate()"
        )
    # Outputs that do not fit the task are told before long work.
    agreement_of(model)
    if config.goal is not None:
        check_request(model, config.goal, evaluation_data, config.search_minutes)
    data = dataset(model, "builtin" if calibration_data is None else calibration_data, skip_bad)
    if evaluation_data is not None and skip_bad:
        evaluation_data = _tolerant(model, evaluation_data, skip_bad)
    read = [each for each in (data, evaluation_data) if isinstance(each, CalibrationDataset)]
    source = fuse_model(model, data)
    excluded_nodes(source.fused, config.exclude)
    calibration = _calibration(source, data, config.method, calibration_data is None, table)
    calibrating(calibration)
    if table is None and calibration.recipe is not None:
        table = calibration.recipe.table
    data = calibration.data
    if table is None:
        table = calibrate(source, data, config.num_samples, config.method, progress, executor)
    decided = plan(source, table, config.exclude, config.dtype)
    # Before the work that ends with running the network in INT8.
    planned = QuantizedGraph(source.fused.graph, decided)
    check_vnni(planned.needing_vnni)
    if model.layout in FEATURE_LAYOUTS:
        looked_at = data.subset(table.samples, at_most=True).batches(BATCH_SIZE)
        warn_of_feature_scales(planned, (batch.data for batch in looked_at))
    ranged = _Ranged(source, table, data, config, progress, executor)
    if not config.never_slower:
        network, search = ranged.quantized(decided, evaluation_data, searching)
        return Quantized(_without(network, read), calibration, search)
    speed = search_speed(source, decided, config.search_minutes, config.speed_batch, progress)
    network, search = ranged.quantized(speed.plan, evaluation_data, searching)
    proof = prove_speed(network, speed, config.speed_batch)
    if proof.returned_in_vain:
        whole, whole_search = ranged.quantized(decided, evaluation_data, searching)
        whole_proof = prove_speed(whole, replace(speed, plan=decided, returned={}), config.speed_batch)
        if whole_proof.faster or not proof.faster:
            network, search, proof = whole, whole_search, whole_proof
    if not proof.faster:
        network, search = ranged.in_fp32(all_in_fp32(network.network, proof), proof, network.mixed), None
    return Quantized(_without(with_proof(network, proof, config.search_minutes), read), calibration, search)


@dataclass(frozen=True, eq=False)
class _Ranged:
    """A fused network with its ranges, to be quantized by one plan or another."""

    source: FusedModel
    table: CalibrationTable
    data: CalibrationDataset
    config: QuantizationConfig
    progress: Progress
    executor: Executor

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
            self.executor,
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


def _tolerant(model: Model, evaluation_data: CalibrationData, skip_bad: int) -> CalibrationDataset:
    """Evaluation data of which samples may be left out."""
    if judged_task(model.task) is not None:
        raise UserError(
            f"{model.task} is judged on every image of the evaluation data, which cannot be left out; leave "
            "--skip-bad (skip_bad) out"
        )
    return dataset(model, evaluation_data, skip_bad)


def _without(network: QuantizedModel, read: Sequence[CalibrationDataset]) -> QuantizedModel:
    """The network, with what was left out of the data that were read."""
    left_out = tuple(each for data in read for each in data.left_out)
    return replace(network, left_out=left_out) if left_out else network


def _calibration(
    source: FusedModel, data: CalibrationDataset, method: str, may_ship: bool, table: Optional[CalibrationTable]
) -> CalibrationSource:
    if table is not None:
        return CalibrationSource("given", data)
    recipe = shipped_recipe(source, method) if may_ship else None
    if recipe is None:
        return CalibrationSource("measured", data)
    return CalibrationSource("shipped", dataset(source.model, recipe.samples), recipe)
