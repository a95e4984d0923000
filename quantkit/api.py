"""What people call: networks are quantized, evaluated and exported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from quantkit.bundle import Bundle
from quantkit.bundle.export import export_fused_onnx, export_int8_onnx
from quantkit.bundle.export import export_onnx as export_fp32_onnx
from quantkit.bundle.network import network_in, network_of
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.bundle.read import read_bundle
from quantkit.calibration.methods import DEFAULT_METHOD
from quantkit.calibration.table import CalibrationTable
from quantkit.cluster.executor import on_cluster
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.left_out import warn_of
from quantkit.data.samples import Samples, skipping
from quantkit.data.sources import load_data
from quantkit.diagnosis.layers.analysis import Analysis
from quantkit.diagnosis.layers.analyze import analyze as analyzed
from quantkit.evaluation.evaluate import BATCH_SIZE, Evaluation, evaluate_networks
from quantkit.evaluation.joint_run import Role
from quantkit.evaluation.network import Network
from quantkit.files.bundles import is_bundle
from quantkit.fusion.fused_model import FusedModel
from quantkit.kinds import of_kind
from quantkit.lowering.onnx_lstm import LstmForm
from quantkit.models.dataset import CalibrationData, dataset
from quantkit.models.load import NetworkSpec, load_model
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.quantization.calibrate import calibrate as calibrated
from quantkit.quantization.config import DEFAULT_CONFIG, QuantizationConfig
from quantkit.quantization.reduced_range import ReduceRange
from quantkit.stages import run_stages
from quantkit.tasks.choose import task_named
from quantkit.tasks.evaluate import TaskEvaluation
from quantkit.tasks.judge import judge
from quantkit.tasks.task import TaskName

if TYPE_CHECKING:
    from distributed import Client

Evaluated = Union[Model, QuantizedModel, NetworkSpec]
"""What can be evaluated: a network in any form, or a bundle's directory."""


def quantize(
    model: Union[Model, NetworkSpec],
    calibration_data: Optional[CalibrationData] = None,
    config: QuantizationConfig = DEFAULT_CONFIG,
    *,
    evaluation_data: Optional[CalibrationData] = None,
    table: Optional[CalibrationTable] = None,
    progress: Progress = silent,
    cluster: Optional[Client] = None,
    skip_bad: int = 0,
) -> QuantizedModel:
    """Quantize a network to INT8 and compare it with FP32.

    Args:
        model: a Model, or anything that ``load_model`` takes.
        calibration_data: what to calibrate with, adjust and compare on; None: the calibration table that ships for
            exactly these weights if there is one, else the built-in photographs.
        config: how to quantize.
        evaluation_data: what to measure the drop of accuracy on, if ``config.goal`` bounds it: other samples than
            those of the calibration.
        table: an earlier calibration of the same network, instead of a new one.
        progress: wraps streams of batches.
        cluster: a Dask cluster to calibrate on, by its client, and to judge the networks of a search; None: this
            process does. Algorithms run here.
        skip_bad: how many samples that cannot be read or used may be left out of each of the data. The result says
            which were, and so does a ``LeftOutWarning``.

    Raises:
        UserError: the configuration does not fit the network, a goal lacks its evaluation data, or an argument is of
            another kind.
        ModelError: the network cannot be loaded, or the table belongs to another one.
        DataError: data cannot be used.
        FusionError: the fused network does not compute what the original does.
        EngineError: the engine of this environment cannot run INT8, or cannot in this process.
    """
    of_kind("config", config, QuantizationConfig, "such as QuantizationConfig.read('config.toml')")
    if table is not None:
        of_kind("table", table, CalibrationTable, "which calibrate() and read_table() return")
    loaded = model if isinstance(model, Model) else load_model(model)
    with on_cluster(cluster) as executor:
        network = run_stages(
            loaded, calibration_data, config, evaluation_data, table, progress, executor=executor, skip_bad=skip_bad
        ).network
    warn_of(network.left_out)
    return network


def calibrate(
    source: FusedModel,
    calibration_data: CalibrationData = "builtin",
    num_samples: Optional[int] = None,
    method: str = DEFAULT_METHOD,
    progress: Progress = silent,
    *,
    cluster: Optional[Client] = None,
    skip_bad: int = 0,
) -> CalibrationTable:
    """Measure the ranges of the fused network's tensors.

    Warns with ``DefaultSamplesWarning`` if the built-in photographs cannot stand in for what the network reads.

    Args:
        source: the fused model.
        calibration_data: what to measure them on.
        num_samples: how many samples; None: 32, or all if there are fewer.
        method: ``minmax``, ``percentile``, ``entropy`` or ``mse``, with a number after a colon where it takes one.
        progress: wraps the stream of batches.
        cluster: a Dask cluster to run the network on, by its client; None: this process runs it. The
            table is that of an engine with one thread.
        skip_bad: how many samples that cannot be read or used may be left out. The table says how many were, a
            ``LeftOutWarning`` which.

    Raises:
        UserError: there is no such method, ``num_samples`` is no whole number, or ``source`` is something else.
        DataError: too few samples, or some that cannot be used.
        ClusterError: the cluster's workers differ in their versions, or are lost.
    """
    of_kind("source", source, FusedModel, "which fuse() returns")
    data = dataset(source.model, calibration_data, skip_bad)
    with on_cluster(cluster) as executor:
        table = calibrated(source, data, num_samples, method, progress, executor)
    warn_of(data.left_out)
    return table


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
    cluster: Optional[Client] = None,
    skip_bad: int = 0,
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
        class_scores: whether the first output is a row of class scores, if quantkit would decide wrongly; None: it
            decides.
        progress: wraps the stream of batches.
        cluster: a Dask cluster to run the networks on, by its client; None: this process runs them.
        skip_bad: how many samples that cannot be read or used may be left out. The result says which were, and so does
            a ``LeftOutWarning``.

    Raises:
        UserError: a network cannot be loaded, the networks cannot be compared, or the dataset is preprocessed for
            another network.
        BundleError: a bundle is damaged.
        DataError: the images cannot be used, or there is nothing to measure on them.
    """
    networks = _networks(network, reference, against)
    samples = _samples(networks["network"], evaluation_data, skip_bad)
    with on_cluster(cluster) as executor:
        found = evaluate_networks(networks, samples, batch_size, num_samples, progress, class_scores, executor)
    warn_of(found.left_out)
    return found


def evaluate_task(
    network: Evaluated,
    evaluation_data: str,
    task: Optional[TaskName] = None,
    reference: Optional[Evaluated] = None,
    *,
    against: Optional[Evaluated] = None,
    num_samples: Optional[int] = None,
    batch_size: int = BATCH_SIZE,
    progress: Progress = silent,
    cluster: Optional[Client] = None,
) -> TaskEvaluation:
    """Judge a detector, a segmentation network or a pose network by the metric of its task.

    Detection: mean average precision, as in VOC 2012 and 2007 on VOC folders and as in COCO on COCO files.
    Segmentation: mean intersection over union, and pixel accuracy. Pose: average precision over object keypoint
    similarity (OKS), with the people given, and the mean OKS. Intervals are those of the percentile bootstrap over
    images.

    Args:
        network: a bundle's directory, a Model, a QuantizedModel, or anything that ``load_model`` takes.
        evaluation_data: a VOC folder or ``FOLDER:SPLIT`` for one of its splits (detection, segmentation), a COCO file
            (detection, pose), or ``scenes:test``; with a reference also images alone, on which the two can agree.
        task: ``detection``, ``segmentation`` or ``pose``; None for what the network is for, as its card or bundle says.
        reference: what the network should compute: the FP32 network.
        against: another form of the same network.
        num_samples: how many of the images, the first; None: all.
        batch_size: how many are run at once.
        progress: wraps the stream of batches.
        cluster: a Dask cluster to run the networks on, by its client; None: this process runs them.

    Raises:
        UserError: a network cannot be loaded, its task is unknown or does not fit its outputs, or networks cannot be
            compared.
        BundleError: a bundle is damaged.
        DataError: the data cannot be used, or there is nothing to judge by.
        EngineError: a network computes maps with NaN or infinite values.
        ExtraMissing: the metric of COCO needs the extra ``tasks``.
    """
    networks = _networks(network, reference, against)
    first = networks["network"]
    name = task_named(first.task, first.name) if task is None else task_named(task)
    with on_cluster(cluster) as executor:
        return judge(name, networks, evaluation_data, batch_size, num_samples, progress, executor)


def analyze(
    bundle: Union[Bundle, str, Path],
    evaluation_data: CalibrationData,
    reference: Union[Model, NetworkSpec, None] = None,
    num_samples: Optional[int] = None,
    progress: Progress = silent,
    *,
    cluster: Optional[Client] = None,
) -> Analysis:
    """Say why an INT8 network differs from FP32, layer by layer.

    The FP32 network is the fused one, whose tensors have the same names as the INT8 network's. The INT8 network is
    simulated in exact integers. Each image is read and preprocessed once, as far as a ``CalibrationDataset`` caches
    them; beyond that, memory does not grow with their number.

    Args:
        bundle: an INT8 bundle, or its directory.
        evaluation_data: anything that ``load_data`` takes, or a dataset in the bundle's form; preferably images that
            the network was not calibrated with.
        reference: the FP32 network, a Model or anything that ``load_model`` takes; None for the one that the bundle
            names.
        num_samples: the number of samples to use; None for 100, or all if there are fewer.
        progress: wraps the stream of batches.
        cluster: a Dask cluster to run the networks on, by its client; None: this process runs them.

    Raises:
        UserError: the bundle holds an FP32 network or no layer in INT8, or the reference cannot be loaded or is
            another network.
        BundleError: the bundle is damaged.
        DataError: the samples cannot be used.
    """
    with on_cluster(cluster) as executor:
        return analyzed(bundle, evaluation_data, reference, num_samples, progress, executor)


def _networks(network: Evaluated, reference: Optional[Evaluated], against: Optional[Evaluated]) -> dict[Role, Network]:
    named: dict[Role, Optional[Evaluated]] = {"network": network, "reference": reference, "against": against}
    return {role: _network(each) for role, each in named.items() if each is not None}


def _network(spec: Evaluated) -> Network:
    if isinstance(spec, QuantizedModel):
        model, steps = network_of(spec.source.model), spec.source.step_scores
        # In the lowered network, scales follow the layer that tells scores.
        said = True if steps is not None and steps.yes else model.said
        return replace(model, kind="int8", graph=spec.graph, said=said)
    if is_bundle(spec):
        return network_in(Path(spec))
    return network_of(spec if isinstance(spec, Model) else load_model(spec))


def _samples(network: Network, data: CalibrationData, skip_bad: int) -> Samples:
    if isinstance(data, CalibrationDataset):
        data.check_form(network.preparation, network.input_shape, network.name)
        samples = data.samples
    else:
        samples = load_data(data)
    # A dataset may say itself how many.
    return samples if skip_bad == 0 else skipping(samples, skip_bad)


def export_onnx(
    network: Evaluated,
    path: Union[str, Path],
    opset: Optional[int] = None,
    reduce_range: ReduceRange = "none",
    lstm: LstmForm = "qdq",
) -> None:
    """Write a network as an ONNX file: INT8 networks in QDQ form, others in FP32 as they are, unfused.

    Args:
        network: a bundle's directory, a QuantizedModel, a Model, or anything that ``load_model`` takes.
        path: where to.
        opset: the version of ONNX's operators, 13 to 21; None for the oldest that has all of the network's.
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
