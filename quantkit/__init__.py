"""quantkit: INT8 quantization and operator fusion for MXNet/GluonCV networks.

Importing it is cheap: each public name is loaded, with the libraries that it needs, when it is first used. It turns
off the telemetry of the engines that are imported afterwards.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quantkit import errors
from quantkit.host.telemetry import turn_off
from quantkit.version import __version__

if TYPE_CHECKING:
    from quantkit.api import Evaluated, analyze, calibrate, evaluate, evaluate_task, export_onnx, quantize
    from quantkit.benchmark.measuring.measurement import Conditions, run_benchmark
    from quantkit.benchmark.results.result_files import read_results
    from quantkit.benchmark.results.results import Cell, Contestant, Results, Run
    from quantkit.benchmark.suites.suite import Subject, Suite
    from quantkit.bundle.latency import Latency, measure_latency
    from quantkit.bundle.manifest import Settings
    from quantkit.bundle.quantized_model import QuantizedModel, lower, measure_agreement
    from quantkit.bundle.verify import Check, Verification
    from quantkit.bundle.verify import verify_bundle as verify
    from quantkit.calibration.ranges import Range
    from quantkit.calibration.table import CalibrationTable, read_table, write_table
    from quantkit.data.batches import Batch
    from quantkit.data.boxes import BoxCorners
    from quantkit.data.dataset import CalibrationDataset
    from quantkit.data.joined_inputs import JoinedInput, JoinedInputs
    from quantkit.data.left_out import LeftOut
    from quantkit.data.preprocess import Preprocess
    from quantkit.data.samples import Sample, Samples
    from quantkit.data.sources import DataSource, load_data
    from quantkit.data.vocabulary import Vocabulary
    from quantkit.deployment.inputs import Images
    from quantkit.deployment.instances import Instances
    from quantkit.deployment.loading import load
    from quantkit.deployment.predictor import Predictor
    from quantkit.deployment.runner import RunnerStatus
    from quantkit.deployment.runtime import Runtime
    from quantkit.deployment.states import States
    from quantkit.deployment.streams import Streams
    from quantkit.deployment.tuning.goal import TuningGoal
    from quantkit.deployment.tuning.search import tune
    from quantkit.deployment.tuning.tuned import Tuned
    from quantkit.deployment.tuning.write import write_tuning
    from quantkit.deployment.watching.drift_watch import SignalStatus
    from quantkit.deployment.watching.monitor import Monitor
    from quantkit.deployment.watching.shadow import ShadowStatus
    from quantkit.deployment.watching.watcher import MonitorStatus
    from quantkit.diagnosis.layers.analysis import Analysis, LayerError
    from quantkit.diagnosis.layers.calibration import Audit
    from quantkit.diagnosis.layers.overflow import Overflow
    from quantkit.diagnosis.layers.tensor import TensorUse
    from quantkit.diagnosis.profile.section import Profiling, Section, profiled
    from quantkit.evaluation.accuracy import Accuracy
    from quantkit.evaluation.agreement import Agreement, OutputAgreement, StepNoise
    from quantkit.evaluation.deviation import Deviation
    from quantkit.evaluation.drop import Drop
    from quantkit.evaluation.evaluate import Comparison, Evaluation
    from quantkit.evaluation.joint_run import Role
    from quantkit.evaluation.measure import Score, ScoreDrop
    from quantkit.evaluation.paired import Paired, PairedMeans, Verdict
    from quantkit.evaluation.perplexity import PerplexityAgreement, PerplexityChange, StepAccuracy
    from quantkit.fusion.fused_model import FusedModel
    from quantkit.fusion.fused_model import fuse_model as fuse
    from quantkit.fusion.numeric_check import FusionCheck
    from quantkit.ir.graph import Graph, Node, Tensor
    from quantkit.ir.handed_states import HandedState
    from quantkit.lowering.onnx_lstm import LstmForm
    from quantkit.mixed_precision.explore import Kept
    from quantkit.mixed_precision.measurements import JudgedNetwork
    from quantkit.mixed_precision.search import SearchResult, search_mixed_precision
    from quantkit.models.class_scores import ClassScores
    from quantkit.models.dataset import CalibrationData
    from quantkit.models.load import NetworkSpec, load_model
    from quantkit.models.model import Model, Source
    from quantkit.models.preprocess_change import PreprocessChange
    from quantkit.models.states_as_inputs import StatesKind
    from quantkit.progress import Progress, Tell
    from quantkit.quantization.algorithms.apply import AdjustedNetwork
    from quantkit.quantization.algorithms.stage import apply_algorithms, plan
    from quantkit.quantization.config import QuantizationConfig
    from quantkit.quantization.goal import Goal, MixedPrecision
    from quantkit.quantization.plan import Decision, QuantizationPlan, TensorDtype, TensorQuantization
    from quantkit.quantization.ptq_config import PresetName, PTQConfig
    from quantkit.quantization.quantized_graph import QuantizedGraph
    from quantkit.quantization.reduced_range import ReduceRange
    from quantkit.quantization.speed import MedianInterval, SpeedProof
    from quantkit.report.write import Report, make_report, write_report
    from quantkit.tasks.detections import Detections
    from quantkit.tasks.evaluate import TaskEvaluation
    from quantkit.tasks.keypoints import Keypoints
    from quantkit.tasks.task import TaskName
    from quantkit.training.augmentation import Augmentation
    from quantkit.training.config import TrainingConfig
    from quantkit.training.epoch import Epoch
    from quantkit.training.finetune import FineTuned, finetune
    from quantkit.training.machines import Machines
    from quantkit.training.quantization_aware import train_quantized
    from quantkit.training.save import save_trained
    from quantkit.training.trained_int8 import TrainedInt8
    from quantkit.training.validation import Validated

__all__ = [
    "Accuracy", "AdjustedNetwork", "Agreement", "Analysis", "Audit", "Augmentation", "Batch", "BoxCorners",
    "CalibrationData", "CalibrationDataset", "CalibrationTable", "Cell", "Check", "ClassScores", "Comparison",
    "Conditions", "Contestant", "DataSource", "Decision", "Detections", "Deviation", "Drop", "Epoch", "Evaluated",
    "Evaluation", "FineTuned", "FusedModel", "FusionCheck", "Goal", "Graph", "HandedState", "Images", "Instances",
    "JoinedInput", "JoinedInputs", "JudgedNetwork", "Kept", "Keypoints", "Latency", "LayerError", "LeftOut", "LstmForm",
    "Machines", "MedianInterval", "MixedPrecision", "Model", "Monitor", "MonitorStatus", "NetworkSpec", "Node",
    "OutputAgreement", "Overflow", "PTQConfig", "Paired", "PairedMeans", "PerplexityAgreement", "PerplexityChange",
    "Predictor", "Preprocess", "PreprocessChange", "PresetName", "Profiling", "Progress", "QuantizationConfig",
    "QuantizationPlan", "QuantizedGraph", "QuantizedModel", "Range", "ReduceRange", "Report", "Results", "Role", "Run",
    "RunnerStatus", "Runtime", "Sample", "Samples", "Score", "ScoreDrop", "SearchResult", "Section", "Settings",
    "ShadowStatus", "SignalStatus", "Source", "SpeedProof", "States", "StatesKind", "StepAccuracy", "StepNoise",
    "Streams", "Subject", "Suite", "TaskEvaluation", "TaskName", "Tell", "Tensor", "TensorDtype", "TensorQuantization",
    "TensorUse", "TrainedInt8", "TrainingConfig", "Tuned", "TuningGoal", "Validated", "Verdict", "Verification",
    "Vocabulary", "__version__", "analyze", "apply_algorithms", "calibrate", "errors", "evaluate", "evaluate_task",
    "export_onnx", "finetune", "fuse", "load", "load_data", "load_model", "lower", "make_report", "measure_agreement",
    "measure_latency", "plan", "profiled", "quantize", "read_results", "read_table", "run_benchmark", "save_trained",
    "search_mixed_precision", "train_quantized", "tune", "verify", "write_report", "write_table", "write_tuning",
]  # fmt: skip

# Which names each module defines; one of another name here is written as in an import.
_NAMES = {
    "quantkit.api": ("Evaluated", "analyze", "calibrate", "evaluate", "evaluate_task", "export_onnx", "quantize"),
    "quantkit.benchmark.measuring.measurement": ("Conditions", "run_benchmark"),
    "quantkit.benchmark.results.result_files": ("read_results",),
    "quantkit.benchmark.results.results": ("Cell", "Contestant", "Results", "Run"),
    "quantkit.benchmark.suites.suite": ("Subject", "Suite"),
    "quantkit.bundle.latency": ("Latency", "measure_latency"),
    "quantkit.bundle.manifest": ("Settings",),
    "quantkit.bundle.quantized_model": ("QuantizedModel", "lower", "measure_agreement"),
    "quantkit.bundle.verify": ("Check", "Verification", "verify_bundle as verify"),
    "quantkit.calibration.ranges": ("Range",),
    "quantkit.calibration.table": ("CalibrationTable", "read_table", "write_table"),
    "quantkit.data.batches": ("Batch",),
    "quantkit.data.boxes": ("BoxCorners",),
    "quantkit.data.dataset": ("CalibrationDataset",),
    "quantkit.data.joined_inputs": ("JoinedInput", "JoinedInputs"),
    "quantkit.data.left_out": ("LeftOut",),
    "quantkit.data.preprocess": ("Preprocess",),
    "quantkit.data.samples": ("Sample", "Samples"),
    "quantkit.data.sources": ("DataSource", "load_data"),
    "quantkit.data.vocabulary": ("Vocabulary",),
    "quantkit.deployment.inputs": ("Images",),
    "quantkit.deployment.instances": ("Instances",),
    "quantkit.deployment.loading": ("load",),
    "quantkit.deployment.predictor": ("Predictor",),
    "quantkit.deployment.runner": ("RunnerStatus",),
    "quantkit.deployment.runtime": ("Runtime",),
    "quantkit.deployment.states": ("States",),
    "quantkit.deployment.streams": ("Streams",),
    "quantkit.deployment.tuning.goal": ("TuningGoal",),
    "quantkit.deployment.tuning.search": ("tune",),
    "quantkit.deployment.tuning.tuned": ("Tuned",),
    "quantkit.deployment.tuning.write": ("write_tuning",),
    "quantkit.deployment.watching.drift_watch": ("SignalStatus",),
    "quantkit.deployment.watching.monitor": ("Monitor",),
    "quantkit.deployment.watching.shadow": ("ShadowStatus",),
    "quantkit.deployment.watching.watcher": ("MonitorStatus",),
    "quantkit.diagnosis.layers.analysis": ("Analysis", "LayerError"),
    "quantkit.diagnosis.layers.calibration": ("Audit",),
    "quantkit.diagnosis.layers.overflow": ("Overflow",),
    "quantkit.diagnosis.layers.tensor": ("TensorUse",),
    "quantkit.diagnosis.profile.section": ("Profiling", "Section", "profiled"),
    "quantkit.evaluation.accuracy": ("Accuracy",),
    "quantkit.evaluation.agreement": ("Agreement", "OutputAgreement", "StepNoise"),
    "quantkit.evaluation.deviation": ("Deviation",),
    "quantkit.evaluation.drop": ("Drop",),
    "quantkit.evaluation.evaluate": ("Comparison", "Evaluation"),
    "quantkit.evaluation.joint_run": ("Role",),
    "quantkit.evaluation.measure": ("Score", "ScoreDrop"),
    "quantkit.evaluation.paired": ("Paired", "PairedMeans", "Verdict"),
    "quantkit.evaluation.perplexity": ("PerplexityAgreement", "PerplexityChange", "StepAccuracy"),
    "quantkit.fusion.fused_model": ("FusedModel", "fuse_model as fuse"),
    "quantkit.fusion.numeric_check": ("FusionCheck",),
    "quantkit.ir.graph": ("Graph", "Node", "Tensor"),
    "quantkit.ir.handed_states": ("HandedState",),
    "quantkit.lowering.onnx_lstm": ("LstmForm",),
    "quantkit.mixed_precision.explore": ("Kept",),
    "quantkit.mixed_precision.measurements": ("JudgedNetwork",),
    "quantkit.mixed_precision.search": ("SearchResult", "search_mixed_precision"),
    "quantkit.models.class_scores": ("ClassScores",),
    "quantkit.models.dataset": ("CalibrationData",),
    "quantkit.models.load": ("NetworkSpec", "load_model"),
    "quantkit.models.model": ("Model", "Source"),
    "quantkit.models.preprocess_change": ("PreprocessChange",),
    "quantkit.models.states_as_inputs": ("StatesKind",),
    "quantkit.progress": ("Progress", "Tell"),
    "quantkit.quantization.algorithms.apply": ("AdjustedNetwork",),
    "quantkit.quantization.algorithms.stage": ("apply_algorithms", "plan"),
    "quantkit.quantization.config": ("QuantizationConfig",),
    "quantkit.quantization.goal": ("Goal", "MixedPrecision"),
    "quantkit.quantization.plan": ("Decision", "QuantizationPlan", "TensorDtype", "TensorQuantization"),
    "quantkit.quantization.ptq_config": ("PresetName", "PTQConfig"),
    "quantkit.quantization.quantized_graph": ("QuantizedGraph",),
    "quantkit.quantization.reduced_range": ("ReduceRange",),
    "quantkit.quantization.speed": ("MedianInterval", "SpeedProof"),
    "quantkit.report.write": ("Report", "make_report", "write_report"),
    "quantkit.tasks.detections": ("Detections",),
    "quantkit.tasks.evaluate": ("TaskEvaluation",),
    "quantkit.tasks.keypoints": ("Keypoints",),
    "quantkit.tasks.task": ("TaskName",),
    "quantkit.training.augmentation": ("Augmentation",),
    "quantkit.training.config": ("TrainingConfig",),
    "quantkit.training.epoch": ("Epoch",),
    "quantkit.training.finetune": ("FineTuned", "finetune"),
    "quantkit.training.machines": ("Machines",),
    "quantkit.training.quantization_aware": ("train_quantized",),
    "quantkit.training.save": ("save_trained",),
    "quantkit.training.trained_int8": ("TrainedInt8",),
    "quantkit.training.validation": ("Validated",),
}

# Where each public name is defined: its module, and its name there.
_HOMES = {name.split()[-1]: (module, name.split()[0]) for module, names in _NAMES.items() for name in names}

turn_off()


def __getattr__(name: str) -> Any:
    """Load a public name at its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
