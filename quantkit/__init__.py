"""quantkit: INT8 quantization and operator fusion for MXNet/GluonCV networks.

Importing it is cheap: each public name is loaded, with the libraries that it needs, when it is first used. It turns
off the telemetry of the engines that are imported afterwards.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quantkit.host.telemetry import turn_off
from quantkit.version import __version__

if TYPE_CHECKING:
    from quantkit import errors as errors
    from quantkit.api import Evaluated as Evaluated
    from quantkit.api import evaluate as evaluate
    from quantkit.api import export_onnx as export_onnx
    from quantkit.api import quantize as quantize
    from quantkit.benchmark.measuring.measurement import Conditions as Conditions
    from quantkit.benchmark.measuring.measurement import run_benchmark as run_benchmark
    from quantkit.benchmark.results.result_files import read_results as read_results
    from quantkit.benchmark.results.results import Cell as Cell
    from quantkit.benchmark.results.results import Contestant as Contestant
    from quantkit.benchmark.results.results import Results as Results
    from quantkit.benchmark.results.results import Run as Run
    from quantkit.benchmark.suites.suite import Subject as Subject
    from quantkit.benchmark.suites.suite import Suite as Suite
    from quantkit.bundle.manifest import Settings as Settings
    from quantkit.bundle.quantized_model import QuantizedModel as QuantizedModel
    from quantkit.bundle.quantized_model import lower as lower
    from quantkit.bundle.quantized_model import measure_agreement as measure_agreement
    from quantkit.bundle.verify import Check as Check
    from quantkit.bundle.verify import Verification as Verification
    from quantkit.bundle.verify import verify_bundle as verify
    from quantkit.calibration.ranges import Range as Range
    from quantkit.calibration.table import CalibrationTable as CalibrationTable
    from quantkit.calibration.table import read_table as read_table
    from quantkit.calibration.table import write_table as write_table
    from quantkit.data.batches import Batch as Batch
    from quantkit.data.dataset import CalibrationDataset as CalibrationDataset
    from quantkit.data.preprocess import Preprocess as Preprocess
    from quantkit.data.samples import Sample as Sample
    from quantkit.data.samples import Samples as Samples
    from quantkit.data.sources import DataSource as DataSource
    from quantkit.data.sources import load_data as load_data
    from quantkit.data.vocabulary import Vocabulary as Vocabulary
    from quantkit.deployment.loading import load as load
    from quantkit.deployment.predictor import Images as Images
    from quantkit.deployment.predictor import Predictor as Predictor
    from quantkit.diagnosis.layers.analysis import Analysis as Analysis
    from quantkit.diagnosis.layers.analysis import LayerError as LayerError
    from quantkit.diagnosis.layers.analyze import analyze as analyze
    from quantkit.diagnosis.layers.calibration import Audit as Audit
    from quantkit.diagnosis.layers.overflow import Overflow as Overflow
    from quantkit.diagnosis.layers.tensor import TensorUse as TensorUse
    from quantkit.diagnosis.profile.section import Profiling as Profiling
    from quantkit.diagnosis.profile.section import Section as Section
    from quantkit.diagnosis.profile.section import profiled as profiled
    from quantkit.evaluation.accuracy import Accuracy as Accuracy
    from quantkit.evaluation.agreement import Agreement as Agreement
    from quantkit.evaluation.agreement import OutputAgreement as OutputAgreement
    from quantkit.evaluation.agreement import StepNoise as StepNoise
    from quantkit.evaluation.deviation import Deviation as Deviation
    from quantkit.evaluation.drop import Drop as Drop
    from quantkit.evaluation.evaluate import Comparison as Comparison
    from quantkit.evaluation.evaluate import Evaluation as Evaluation
    from quantkit.evaluation.evaluate import Role as Role
    from quantkit.evaluation.paired import Paired as Paired
    from quantkit.evaluation.paired import PairedMeans as PairedMeans
    from quantkit.evaluation.paired import Verdict as Verdict
    from quantkit.evaluation.perplexity import PerplexityAgreement as PerplexityAgreement
    from quantkit.evaluation.perplexity import PerplexityChange as PerplexityChange
    from quantkit.evaluation.perplexity import StepAccuracy as StepAccuracy
    from quantkit.fusion.fused_model import FusedModel as FusedModel
    from quantkit.fusion.fused_model import fuse_model as fuse
    from quantkit.fusion.numeric_check import FusionCheck as FusionCheck
    from quantkit.ir.graph import Graph as Graph
    from quantkit.ir.graph import Node as Node
    from quantkit.ir.graph import Tensor as Tensor
    from quantkit.lowering.onnx_lstm import LstmForm as LstmForm
    from quantkit.mixed_precision.explore import Kept as Kept
    from quantkit.mixed_precision.measurements import JudgedNetwork as JudgedNetwork
    from quantkit.mixed_precision.search import SearchResult as SearchResult
    from quantkit.mixed_precision.search import search_mixed_precision as search_mixed_precision
    from quantkit.models.class_scores import ClassScores as ClassScores
    from quantkit.models.dataset import CalibrationData as CalibrationData
    from quantkit.models.load import NetworkSpec as NetworkSpec
    from quantkit.models.load import load_model as load_model
    from quantkit.models.model import Model as Model
    from quantkit.models.model import Source as Source
    from quantkit.models.preprocess_change import PreprocessChange as PreprocessChange
    from quantkit.progress import Progress as Progress
    from quantkit.progress import Tell as Tell
    from quantkit.quantization.algorithms.apply import AdjustedNetwork as AdjustedNetwork
    from quantkit.quantization.algorithms.stage import apply_algorithms as apply_algorithms
    from quantkit.quantization.algorithms.stage import plan as plan
    from quantkit.quantization.calibrate import calibrate as calibrate
    from quantkit.quantization.config import QuantizationConfig as QuantizationConfig
    from quantkit.quantization.goal import Goal as Goal
    from quantkit.quantization.goal import MixedPrecision as MixedPrecision
    from quantkit.quantization.plan import Decision as Decision
    from quantkit.quantization.plan import QuantizationPlan as QuantizationPlan
    from quantkit.quantization.plan import TensorDtype as TensorDtype
    from quantkit.quantization.plan import TensorQuantization as TensorQuantization
    from quantkit.quantization.ptq_config import PresetName as PresetName
    from quantkit.quantization.ptq_config import PTQConfig as PTQConfig
    from quantkit.quantization.quantized_graph import QuantizedGraph as QuantizedGraph
    from quantkit.quantization.reduced_range import ReduceRange as ReduceRange
    from quantkit.quantization.speed import MedianInterval as MedianInterval
    from quantkit.quantization.speed import SpeedProof as SpeedProof
    from quantkit.report.write import Report as Report
    from quantkit.report.write import make_report as make_report
    from quantkit.report.write import write_report as write_report

__all__ = [
    "Accuracy",
    "AdjustedNetwork",
    "Agreement",
    "Analysis",
    "Audit",
    "Batch",
    "CalibrationData",
    "CalibrationDataset",
    "CalibrationTable",
    "Cell",
    "Check",
    "ClassScores",
    "Comparison",
    "Conditions",
    "Contestant",
    "DataSource",
    "Decision",
    "Deviation",
    "Drop",
    "Evaluated",
    "Evaluation",
    "FusedModel",
    "FusionCheck",
    "Goal",
    "Graph",
    "Images",
    "JudgedNetwork",
    "Kept",
    "LayerError",
    "LstmForm",
    "MedianInterval",
    "MixedPrecision",
    "Model",
    "NetworkSpec",
    "Node",
    "OutputAgreement",
    "Overflow",
    "PTQConfig",
    "Paired",
    "PairedMeans",
    "PerplexityAgreement",
    "PerplexityChange",
    "Predictor",
    "Preprocess",
    "PreprocessChange",
    "PresetName",
    "Profiling",
    "Progress",
    "QuantizationConfig",
    "QuantizationPlan",
    "QuantizedGraph",
    "QuantizedModel",
    "Range",
    "ReduceRange",
    "Report",
    "Results",
    "Role",
    "Run",
    "Sample",
    "Samples",
    "SearchResult",
    "Section",
    "Settings",
    "Source",
    "SpeedProof",
    "StepAccuracy",
    "StepNoise",
    "Subject",
    "Suite",
    "Tell",
    "Tensor",
    "TensorDtype",
    "TensorQuantization",
    "TensorUse",
    "Verdict",
    "Verification",
    "Vocabulary",
    "__version__",
    "analyze",
    "apply_algorithms",
    "calibrate",
    "errors",
    "evaluate",
    "export_onnx",
    "fuse",
    "load",
    "load_data",
    "load_model",
    "lower",
    "make_report",
    "measure_agreement",
    "plan",
    "profiled",
    "quantize",
    "read_results",
    "read_table",
    "run_benchmark",
    "search_mixed_precision",
    "verify",
    "write_report",
    "write_table",
]

# Where each public name is defined: its module, and its name there (empty: the module itself).
_HOMES = {
    "Accuracy": ("quantkit.evaluation.accuracy", "Accuracy"),
    "AdjustedNetwork": ("quantkit.quantization.algorithms.apply", "AdjustedNetwork"),
    "Agreement": ("quantkit.evaluation.agreement", "Agreement"),
    "Analysis": ("quantkit.diagnosis.layers.analysis", "Analysis"),
    "Audit": ("quantkit.diagnosis.layers.calibration", "Audit"),
    "Batch": ("quantkit.data.batches", "Batch"),
    "CalibrationData": ("quantkit.models.dataset", "CalibrationData"),
    "CalibrationDataset": ("quantkit.data.dataset", "CalibrationDataset"),
    "CalibrationTable": ("quantkit.calibration.table", "CalibrationTable"),
    "Cell": ("quantkit.benchmark.results.results", "Cell"),
    "Check": ("quantkit.bundle.verify", "Check"),
    "ClassScores": ("quantkit.models.class_scores", "ClassScores"),
    "Comparison": ("quantkit.evaluation.evaluate", "Comparison"),
    "Conditions": ("quantkit.benchmark.measuring.measurement", "Conditions"),
    "Contestant": ("quantkit.benchmark.results.results", "Contestant"),
    "DataSource": ("quantkit.data.sources", "DataSource"),
    "Decision": ("quantkit.quantization.plan", "Decision"),
    "Deviation": ("quantkit.evaluation.deviation", "Deviation"),
    "Drop": ("quantkit.evaluation.drop", "Drop"),
    "Evaluated": ("quantkit.api", "Evaluated"),
    "Evaluation": ("quantkit.evaluation.evaluate", "Evaluation"),
    "FusedModel": ("quantkit.fusion.fused_model", "FusedModel"),
    "FusionCheck": ("quantkit.fusion.numeric_check", "FusionCheck"),
    "Goal": ("quantkit.quantization.goal", "Goal"),
    "Graph": ("quantkit.ir.graph", "Graph"),
    "Images": ("quantkit.deployment.predictor", "Images"),
    "JudgedNetwork": ("quantkit.mixed_precision.measurements", "JudgedNetwork"),
    "Kept": ("quantkit.mixed_precision.explore", "Kept"),
    "LayerError": ("quantkit.diagnosis.layers.analysis", "LayerError"),
    "LstmForm": ("quantkit.lowering.onnx_lstm", "LstmForm"),
    "MedianInterval": ("quantkit.quantization.speed", "MedianInterval"),
    "MixedPrecision": ("quantkit.quantization.goal", "MixedPrecision"),
    "Model": ("quantkit.models.model", "Model"),
    "NetworkSpec": ("quantkit.models.load", "NetworkSpec"),
    "Node": ("quantkit.ir.graph", "Node"),
    "OutputAgreement": ("quantkit.evaluation.agreement", "OutputAgreement"),
    "Overflow": ("quantkit.diagnosis.layers.overflow", "Overflow"),
    "PTQConfig": ("quantkit.quantization.ptq_config", "PTQConfig"),
    "Paired": ("quantkit.evaluation.paired", "Paired"),
    "PairedMeans": ("quantkit.evaluation.paired", "PairedMeans"),
    "PerplexityAgreement": ("quantkit.evaluation.perplexity", "PerplexityAgreement"),
    "PerplexityChange": ("quantkit.evaluation.perplexity", "PerplexityChange"),
    "Predictor": ("quantkit.deployment.predictor", "Predictor"),
    "Preprocess": ("quantkit.data.preprocess", "Preprocess"),
    "PreprocessChange": ("quantkit.models.preprocess_change", "PreprocessChange"),
    "PresetName": ("quantkit.quantization.ptq_config", "PresetName"),
    "Profiling": ("quantkit.diagnosis.profile.section", "Profiling"),
    "Progress": ("quantkit.progress", "Progress"),
    "QuantizationConfig": ("quantkit.quantization.config", "QuantizationConfig"),
    "QuantizationPlan": ("quantkit.quantization.plan", "QuantizationPlan"),
    "QuantizedGraph": ("quantkit.quantization.quantized_graph", "QuantizedGraph"),
    "QuantizedModel": ("quantkit.bundle.quantized_model", "QuantizedModel"),
    "Range": ("quantkit.calibration.ranges", "Range"),
    "ReduceRange": ("quantkit.quantization.reduced_range", "ReduceRange"),
    "Report": ("quantkit.report.write", "Report"),
    "Results": ("quantkit.benchmark.results.results", "Results"),
    "Role": ("quantkit.evaluation.evaluate", "Role"),
    "Run": ("quantkit.benchmark.results.results", "Run"),
    "Sample": ("quantkit.data.samples", "Sample"),
    "Samples": ("quantkit.data.samples", "Samples"),
    "SearchResult": ("quantkit.mixed_precision.search", "SearchResult"),
    "Section": ("quantkit.diagnosis.profile.section", "Section"),
    "Settings": ("quantkit.bundle.manifest", "Settings"),
    "Source": ("quantkit.models.model", "Source"),
    "SpeedProof": ("quantkit.quantization.speed", "SpeedProof"),
    "StepAccuracy": ("quantkit.evaluation.perplexity", "StepAccuracy"),
    "StepNoise": ("quantkit.evaluation.agreement", "StepNoise"),
    "Subject": ("quantkit.benchmark.suites.suite", "Subject"),
    "Suite": ("quantkit.benchmark.suites.suite", "Suite"),
    "Tell": ("quantkit.progress", "Tell"),
    "Tensor": ("quantkit.ir.graph", "Tensor"),
    "TensorDtype": ("quantkit.quantization.plan", "TensorDtype"),
    "TensorQuantization": ("quantkit.quantization.plan", "TensorQuantization"),
    "TensorUse": ("quantkit.diagnosis.layers.tensor", "TensorUse"),
    "Verdict": ("quantkit.evaluation.paired", "Verdict"),
    "Verification": ("quantkit.bundle.verify", "Verification"),
    "Vocabulary": ("quantkit.data.vocabulary", "Vocabulary"),
    "analyze": ("quantkit.diagnosis.layers.analyze", "analyze"),
    "apply_algorithms": ("quantkit.quantization.algorithms.stage", "apply_algorithms"),
    "calibrate": ("quantkit.quantization.calibrate", "calibrate"),
    "errors": ("quantkit.errors", ""),
    "evaluate": ("quantkit.api", "evaluate"),
    "export_onnx": ("quantkit.api", "export_onnx"),
    "fuse": ("quantkit.fusion.fused_model", "fuse_model"),
    "load": ("quantkit.deployment.loading", "load"),
    "load_data": ("quantkit.data.sources", "load_data"),
    "load_model": ("quantkit.models.load", "load_model"),
    "lower": ("quantkit.bundle.quantized_model", "lower"),
    "make_report": ("quantkit.report.write", "make_report"),
    "measure_agreement": ("quantkit.bundle.quantized_model", "measure_agreement"),
    "profiled": ("quantkit.diagnosis.profile.section", "profiled"),
    "plan": ("quantkit.quantization.algorithms.stage", "plan"),
    "quantize": ("quantkit.api", "quantize"),
    "read_results": ("quantkit.benchmark.results.result_files", "read_results"),
    "read_table": ("quantkit.calibration.table", "read_table"),
    "run_benchmark": ("quantkit.benchmark.measuring.measurement", "run_benchmark"),
    "search_mixed_precision": ("quantkit.mixed_precision.search", "search_mixed_precision"),
    "verify": ("quantkit.bundle.verify", "verify_bundle"),
    "write_report": ("quantkit.report.write", "write_report"),
    "write_table": ("quantkit.calibration.table", "write_table"),
}

turn_off()


def __getattr__(name: str) -> Any:
    """Load a public name at its first use (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    loaded = import_module(module)
    return getattr(loaded, attribute) if attribute else loaded


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
