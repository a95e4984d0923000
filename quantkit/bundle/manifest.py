"""The manifest: a bundle's description of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Optional, get_args

from pydantic import ConfigDict, Field, FiniteFloat

from quantkit.data.boxes import BoxCorners
from quantkit.data.joined_inputs import JoinedInput, JoinedInputs
from quantkit.data.vocabulary import Vocabulary
from quantkit.files.schema import FirstFaultOnly
from quantkit.models.families import Task
from quantkit.models.layout import InputLayout
from quantkit.models.model import WeightsKind
from quantkit.quantization.goal import MixedPrecision
from quantkit.quantization.plan import TensorDtype
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.speed import SpeedProof
from quantkit.tasks.task import TaskName

_FORMAT: Literal["quantkit-bundle"] = "quantkit-bundle"
# Version 5 has neither notes nor scores of steps, version 6 no states, version 7 no task, version 8 only those of
# ``TaskName``, and neither corners of boxes nor proofs of several bindings, version 9 no joined inputs.
_Version = Literal[5, 6, 7, 8, 9, 10]
_VERSION: _Version = 6
_WITH_STATES: _Version = 7
_WITH_TASK: _Version = 8
_WITH_CORNERS: _Version = 9
_LATEST: _Version = 10

VERSIONS: tuple[int, ...] = get_args(_Version)
"""The versions of manifests that this quantkit reads."""

_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Shape = Annotated[tuple[Annotated[int, Field(gt=0)], ...], Field(min_length=1)]
_Name = Annotated[str, Field(min_length=1)]
# Without folders, so that no name leads out of the bundle.
_FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
_Count = Annotated[int, Field(ge=0)]
_Share = Annotated[FiniteFloat, Field(ge=0, le=1)]


SampleOrigin = Literal["built-in", "generated", "own"]
"""What the stored sample is: an image that ships with quantkit, noise, or one of the user's images."""


@dataclass(frozen=True)
class FileEntry:
    """A file of the bundle: its hash and its size in bytes."""

    sha256: _Sha256
    size: _Count


@dataclass(frozen=True)
class Engine:
    """The engine that computed the stored outputs.

    ``mxnet`` and ``numpy`` are versions. ``isa`` is the widest instruction set in use, of those on which the results of
    INT8 kernels depend.
    """

    mxnet: _Name
    numpy: _Name
    isa: _Name


@dataclass(frozen=True)
class Joined:
    """One of several inputs that files of the network have in place of the vector that ``Input`` describes."""

    name: _Name
    shape: _Shape
    vocabulary: Optional[Vocabulary] = None


@dataclass(frozen=True)
class Input:
    """The network's input; ``shape`` is without the batch axis, the first of ``layout``.

    ``vocabulary`` is that of the token ids it reads, which MXNet takes as float32; None, and left out of the file, if
    it reads none. ``joined`` are the network's own inputs, of which it is the vector, if there are several; left out of
    the file where there is one.
    """

    name: _Name
    shape: _Shape
    dtype: Literal["float32"] = "float32"
    layout: InputLayout = "NCHW"
    vocabulary: Optional[Vocabulary] = None
    joined: Annotated[tuple[Joined, ...], FirstFaultOnly()] = ()

    @property
    def several(self) -> Optional[JoinedInputs]:
        """The network's own inputs; None if there is one."""
        inputs = tuple(JoinedInput(each.name, each.shape, each.vocabulary) for each in self.joined)
        return JoinedInputs(inputs) if inputs else None


@dataclass(frozen=True)
class Output:
    """One of the network's outputs, float32; ``shape`` is without the batch axis.

    ``scores`` is the final operator that makes the output scores from 0 to 1; None if there is none.
    """

    name: _Name
    shape: tuple[Annotated[int, Field(gt=0)], ...]
    scores: Optional[Literal["softmax", "sigmoid"]] = None


@dataclass(frozen=True)
class State:
    """A state that the network hands on from one piece of a sequence to the next, float32.

    ``input`` is the further input that a piece begins with, ``output`` the output that it ends with; ``shape`` of both,
    (layers, units), is without the batch axis.
    """

    input: _Name
    output: _Name
    # As many layers and units as a recurrent operator in a file may have.
    shape: tuple[Annotated[int, Field(gt=0, le=1 << 10)], Annotated[int, Field(gt=0, le=1 << 16)]]


@dataclass(frozen=True)
class Origin:
    """Where the network and its weights came from; see ``models.model.Source``."""

    network: str
    weights: WeightsKind
    location: str
    sha256: str


@dataclass(frozen=True)
class Settings:
    """How the network was quantized; ``method``, ``samples`` and ``data`` are those of the calibration.

    ``algorithms`` are the algorithms applied, with the number of images that they used. ``mixed`` is how layers were
    returned to FP32; None without a goal. ``speed`` is the proof that it is not slower than FP32; None where that was
    not asked for.
    """

    method: _Name
    samples: Annotated[int, Field(ge=1)]
    data: str
    exclude: tuple[str, ...]
    dtype: TensorDtype
    algorithms: PTQConfig
    mixed: Optional[MixedPrecision]
    speed: Optional[SpeedProof]


@dataclass(frozen=True)
class FusionResult:
    """The comparison of the fused with the unfused network; see ``fusion.numeric_check.FusionCheck``."""

    samples: _Count
    difference: FiniteFloat
    allowed: FiniteFloat
    changed_predictions: _Count


@dataclass(frozen=True)
class OutputResult:
    """The comparison of one output; see ``evaluation.agreement.OutputAgreement``.

    ``sqnr`` is None if it is not finite: nothing deviates, or the reference is 0 throughout.
    """

    name: str
    cosine: FiniteFloat
    sqnr: Optional[FiniteFloat]
    deviation: FiniteFloat
    largest: FiniteFloat


@dataclass(frozen=True)
class StepResult:
    """The signal-to-noise ratio of the first output at one step, counted from 1; see ``OutputResult`` for ``sqnr``."""

    step: Annotated[int, Field(ge=1)]
    sqnr: Optional[FiniteFloat]


@dataclass(frozen=True)
class PerplexityResult:
    """The perplexities of FP32 and INT8, and the change in percent with its 95 % interval."""

    reference: FiniteFloat
    network: FiniteFloat
    change: FiniteFloat
    low: FiniteFloat
    high: FiniteFloat


@dataclass(frozen=True)
class ScoreResult:
    """A score of the task from 0 to 1 with its 95 % interval; None where there was nothing to score."""

    name: _Name
    value: Optional[_Share]
    low: Optional[_Share]
    high: Optional[_Share]


@dataclass(frozen=True)
class AgreementResult:
    """The comparison of INT8 with FP32 on the calibration samples; see ``evaluation.agreement.Agreement``.

    ``top1`` is None if the outputs are not class scores. ``steps`` are of sequences, ``perplexity`` is of those whose
    steps have labels, ``scores`` are of the task; all are left out of the file where there are none.
    """

    images: _Count
    top1: Optional[_Share]
    outputs: Annotated[tuple[OutputResult, ...], Field(min_length=1), FirstFaultOnly()]
    steps: tuple[StepResult, ...] = ()
    perplexity: Optional[PerplexityResult] = None
    scores: tuple[ScoreResult, ...] = ()

    @property
    def cosine(self) -> float:
        """The cosine of the first output."""
        return self.outputs[0].cosine


@dataclass(frozen=True)
class Manifest:
    """A bundle's description of itself.

    ``settings`` and ``agreement`` are None in bundles of kind ``fp32``; ``agreement`` is also None if it was not
    measured. ``files`` lists every file of the bundle except the manifest itself. ``class_scores`` says whether the
    (first) output is a row of class scores, ``step_scores`` whether it has one for every step of a sequence; left out
    of the file where it has not.

    ``sample`` is None, and left out of the file, if the stored sample is the first of the images in ``settings.data``,
    which are built in.

    ``notes`` say in which way the network differs from the one that was given, see ``models.model.Model``; left out of
    the file where there are none.

    ``states`` are those that it hands on; left out of the file where there are none.

    ``task`` is what the network is for, by which its outputs are read and judged; left out of the file where that is
    classification.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    kind: Literal["int8", "fp32"]
    name: _Name
    quantkit: str
    engine: Engine
    input: Input
    outputs: Annotated[tuple[Output, ...], Field(min_length=1), FirstFaultOnly()]
    class_scores: bool
    source: Origin
    settings: Optional[Settings]
    fusion: FusionResult
    agreement: Optional[AgreementResult]
    files: Annotated[dict[_FileName, FileEntry], FirstFaultOnly()]
    sample: Optional[SampleOrigin] = None
    format: Literal["quantkit-bundle"] = _FORMAT
    version: _Version = _VERSION
    notes: tuple[str, ...] = ()
    step_scores: bool = False
    states: Annotated[tuple[State, ...], FirstFaultOnly()] = ()
    task: Optional[Task] = None


def version_for(
    states: tuple[State, ...],
    task: Optional[Task] = None,
    corners: Optional[BoxCorners] = None,
    speed: Optional[SpeedProof] = None,
    joined: tuple[Joined, ...] = (),
) -> _Version:
    """The oldest version that knows all that a manifest with such states, task and proof and its card say.

    Args:
        states: those that the network hands on.
        task: what it is for; None for classification.
        corners: those of its boxes, as the card tells them; None if it does not.
        speed: the proof that it is not slower than FP32.
        joined: its inputs, if it has several.
    """
    if joined:
        return _LATEST
    if corners is not None or (speed is not None and speed.bindings > 1):
        return _WITH_CORNERS
    if task is not None:
        return _WITH_TASK if task in get_args(TaskName) else _WITH_CORNERS
    return _WITH_STATES if states else _VERSION
