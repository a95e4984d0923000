"""The search: measure what each layer in FP32 gives and costs, choose, and check, until the goal is met."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Optional, Union

from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.bundle.engine import present_engine
from quantkit.bundle.network import network_of
from quantkit.bundle.quantized_model import QuantizedModel, lower, measure_agreement
from quantkit.calibration.table import CalibrationTable
from quantkit.data.aggregation import Executor, in_this_process
from quantkit.errors import DataError, UserError
from quantkit.files.files import locked
from quantkit.formats.mxnet import nnvm
from quantkit.fusion.fused_model import FusedModel
from quantkit.host.cpu import read_cpu
from quantkit.kinds import number, of_kind
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.busy import warn_of_load
from quantkit.mixed_precision.candidates import candidates
from quantkit.mixed_precision.choose import Layers
from quantkit.mixed_precision.explore import Exploration, Kept, best, meets
from quantkit.mixed_precision.images import Judged, judged, scores_of
from quantkit.mixed_precision.journal import Journal, check_journals, journal_path
from quantkit.mixed_precision.kept_in_fp32 import kept_in_fp32
from quantkit.mixed_precision.measurements import Budget, JudgedNetwork, Measurements
from quantkit.mixed_precision.task_images import JudgedByTask, judged_by_task
from quantkit.models.class_scores import ClassScores
from quantkit.models.dataset import CalibrationData, dataset
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.quantization.algorithms.apply import AdjustedNetwork
from quantkit.quantization.algorithms.stage import apply_algorithms, with_pre_add_ranges
from quantkit.quantization.config import DEFAULT_MINUTES
from quantkit.quantization.goal import Goal, MixedPrecision
from quantkit.quantization.plan import QuantizationPlan
from quantkit.quantization.ptq_config import PresetName, PTQConfig
from quantkit.quantization.quantized_graph import QuantizedGraph
from quantkit.tasks.choose import judged_task
from quantkit.tasks.judge import task_and_data
from quantkit.version import __version__

AnyJudged = Union[Judged, JudgedByTask]

_FEW_IMAGES = 50

# To be raised when what a measurement holds, or how it is made, changes.
_JOURNAL_FORMAT = 5


class FewImagesWarning(UserWarning):
    """The images are too few to tell small drops of accuracy apart."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found.

    Attributes:
        network: the best network, ``network.mixed`` its record.
        goal: what was asked for.
        met: whether ``network`` meets it.
        int8: the network all in INT8, judged.
        chosen: ``network``, judged.
        layers: those of ``network`` that were returned to FP32.
        data: the name of the images that it was judged by, and with which its layers were chosen.
        images: how many there were.
        candidates: how many layers and groups could have been returned to FP32, and how many of these were measured.
        measurements: how many were made in all, and how many of them by earlier, interrupted runs.
        time_is_up: whether the budget ended the search.
    """

    network: QuantizedModel
    goal: Goal
    met: bool
    int8: JudgedNetwork
    chosen: JudgedNetwork
    layers: tuple[Kept, ...]
    data: str
    images: int
    candidates: tuple[int, int]
    measurements: tuple[int, int]
    time_is_up: bool


def search_mixed_precision(
    source: FusedModel,
    table: CalibrationTable,
    plan: QuantizationPlan,
    goal: Goal,
    evaluation_data: Optional[CalibrationData] = None,
    calibration_data: CalibrationData = "builtin",
    algorithms: Union[PresetName, PTQConfig, None] = None,
    minutes: float = DEFAULT_MINUTES,
    progress: Progress = silent,
    begun: Callable[[Journal], object] = lambda journal: None,
    executor: Executor = in_this_process,
) -> SearchResult:
    """Make an INT8 network that meets a goal, with as few layers in FP32 as that takes.

    Layers, and groups of layers that belong together, return to FP32 one after the other. First are those that bring
    the outputs closest to FP32's per measured millisecond. The goal is checked on all images. Algorithms
    are applied to the last network once more, its FP32 layers left alone, and the result is kept if it is better.
    Every measurement is stored at once: a search that was interrupted, or whose budget ended, continues where it
    stopped when it is started again.

    Args:
        source: the fused model.
        table: its calibration.
        plan: what becomes INT8 at most.
        goal: what the network must keep.
        evaluation_data: what to judge by, with labels or without; None: the samples that were calibrated with, where
            the goal has no ``max_drop``.
        calibration_data: what the algorithms look at, as in ``apply_algorithms``.
        algorithms: which algorithms, as in ``apply_algorithms``.
        minutes: how long to search; loading, calibrating, applying the algorithms first and looking at the images first
            do not count. The measurement at hand is finished.
        progress: wraps streams of steps.
        begun: is given the journal when the search begins.
        executor: where networks run over all images: in this process, or elsewhere. Times are measured here.

    Raises:
        UserError: another process runs the same search, the weights are random, no layer runs in INT8, there are no
            ``evaluation_data`` for a ``max_drop``, or ``minutes`` is no number of minutes.
        DataError: evaluation or calibration data cannot be used.
        QuantkitError: measurements cannot be kept.
    """
    of_kind("source", source, FusedModel, "which fuse() returns")
    check_request(source.model, goal, evaluation_data, minutes)
    samples = dataset(source.model, calibration_data)
    judged_by = samples.subset(table.samples, at_most=True) if evaluation_data is None else evaluation_data
    task = judged_task(source.model.task)
    looked_at: AnyJudged = (
        judged(source, judged_by, progress, executor)
        if task is None
        else judged_by_task(source.model, task, judged_by, progress, executor)
    )
    if goal.max_drop is not None:
        _check_measurable(source.model, looked_at)
    _warn_of_few(looked_at, goal)
    adjusted = apply_algorithms(source, table, plan, samples, algorithms, progress)
    if not adjusted.network.int8_weighted:
        raise UserError(f"no layer of {source.model.name} runs in INT8, so there is nothing to return to FP32")
    path = journal_path(_facts(source, table, adjusted, looked_at))
    if isinstance(looked_at, Judged):
        looked_at = looked_at.balanced(int8_graph(adjusted.network))

    def anew(layers: Layers) -> AdjustedNetwork:
        mixed = kept_in_fp32(QuantizedGraph(source.fused.graph, plan), layers)
        return apply_algorithms(source, table, mixed.plan, samples, algorithms, progress)

    warn_of_load(f"search on an idle machine, and delete {path} first to measure anew")
    with locked(path.with_suffix(".lock"), _refuse):
        journal = Journal(path)
        begun(journal)
        measurements = Measurements(source, adjusted, anew, looked_at, journal, Budget(60 * minutes))
        search = Exploration(measurements, adjusted, goal, candidates(adjusted.network), progress)
        time_is_up = search.run()
        chosen = best(tuple(measurements.checks.values()), goal)
        final = with_pre_add_ranges(source, table, measurements.network(chosen.layers, chosen.again), samples)
        network = measure_agreement(lower(source, table, final), samples, progress)
        return SearchResult(
            replace(
                network,
                config=replace(network.config, goal=goal, search_minutes=minutes),
                mixed=_record(chosen, goal, looked_at),
            ),
            goal,
            meets(chosen, goal),
            measurements.check(frozenset()),
            chosen,
            search.kept(chosen.layers),
            looked_at.samples.name,
            looked_at.count,
            (len(search.candidates), search.measured),
            (len(journal), journal.resumed),
            time_is_up,
        )


def check_request(model: Model, goal: Goal, evaluation_data: Optional[CalibrationData], minutes: float) -> None:
    """Find what is wrong with a request, before anything long begins; see ``mixed_precision``."""
    if model.source.weights == "random":
        raise UserError(
            f"the weights of {model.name} are random: there is no accuracy to keep; give trained ones "
            "(--weights pretrained or a file), or no goal"
        )
    of_kind("goal", goal, Goal, "such as Goal(max_drop=0.3)")
    if goal.max_drop is not None and evaluation_data is None:
        raise UserError(
            "a largest drop of accuracy needs images to measure it on, other than those that were calibrated with; "
            "give some with --eval-data (evaluation_data=)"
        )
    minutes = number("minutes", minutes, "give a number from 0 up, such as 10")
    if not 0 <= minutes < float("inf"):
        raise UserError(f"a budget of {minutes:g} minutes was asked for; give a number from 0 up, such as 10")
    if goal.max_drop is not None:
        _check_has_drop(model, evaluation_data)
    check_journals()


def _check_has_drop(model: Model, evaluation_data: Optional[CalibrationData]) -> None:
    task = judged_task(model.task)
    if task is None:
        shapes = infer_shapes(model.graph, dict.fromkeys(model.graph.inputs, (1, *model.input_shape)))
        outputs = [shapes[output][1:] for output in model.graph.outputs]
        # Whether the images have labels is not known yet.
        _check_class_scores(model, scores_of(model, outputs, labelled=True)[0])
    elif isinstance(evaluation_data, (str, os.PathLike)):
        task_and_data(task, network_of(model), evaluation_data)


def _check_class_scores(model: Model, judged: ClassScores) -> None:
    if not judged.yes:
        raise UserError(
            f"a drop of top-1 or perplexity needs class scores, and the outputs of {model.name} are none "
            f"({judged.why}); give --min-speedup alone, --classes (class_scores=True) if they are, or --task "
            "(task=), what it is for"
        )


def _check_measurable(model: Model, images: AnyJudged) -> None:
    if isinstance(images, JudgedByTask):
        if images.measure is None:
            raise DataError(
                f"there is nothing on {images.samples.name} that the {model.task} of {model.name} could be judged by: "
                "neither objects nor confident predictions of FP32; give annotated images"
            )
        return
    _check_class_scores(model, images.class_scores)
    if images.measure is None:
        raise DataError(
            f"the drop of {model.name}, which puts out class scores for every step, is one of perplexity, and "
            f"{images.samples.name} has no labels; give a label for every step: y of shape (samples, steps), such as "
            "the next tokens"
        )


def _refuse() -> None:
    raise UserError("another process searches the same network already; wait until it has ended")


def _warn_of_few(images: AnyJudged, goal: Goal) -> None:
    """Warn where each image counts much; of other measures the interval tells how certain they are."""
    counted = images.measure in ("top-1", "agreement")
    if goal.max_drop is not None and counted and images.count < _FEW_IMAGES:
        warnings.warn(
            f"one of {images.count} images is {100 / images.count:.1f} points, so a drop of {goal.max_drop:g} "
            "points can hardly be told from chance; evaluate on more images",
            FewImagesWarning,
            stacklevel=3,
        )


def _record(chosen: JudgedNetwork, goal: Goal, images: AnyJudged) -> MixedPrecision:
    drop = chosen.drop
    return MixedPrecision(
        goal.max_drop,
        goal.min_speedup,
        meets(chosen, goal),
        tuple(sorted(chosen.layers)),
        None if drop is None else drop.measure,
        None if drop is None else drop.loss,
        images.count,
        images.samples.name,
    )


def _facts(source: FusedModel, table: CalibrationTable, adjusted: AdjustedNetwork, images: AnyJudged) -> dict[str, Any]:
    """All that determines what is measured."""
    cpu = read_cpu()
    return {
        "format": _JOURNAL_FORMAT,
        "quantkit": __version__,
        "engine": asdict(present_engine()),
        "cpu": [cpu.model, cpu.usable, os.environ.get("OMP_NUM_THREADS")],
        "fp32": nnvm.sha256_of(source.model.graph),
        "fused": source.sha256,
        "exact": nnvm.sha256_of(adjusted.exact),
        "int8": nnvm.sha256_of(int8_graph(adjusted.network)),
        "calibration": [table.method, table.samples, table.data_sha256],
        "algorithms": asdict(adjusted.algorithms),
        "images run": images.executor.environment,
        **images.facts,
    }
