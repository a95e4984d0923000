"""The manifest: a bundle's description of itself, and the schema of its file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Optional, get_args

from pydantic import ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from quantkit.bundle.quantization import FUSED_PARAMS, FUSED_SYMBOL, QUANTIZATION
from quantkit.data.vocabulary import Vocabulary
from quantkit.errors import BundleError, UserError
from quantkit.files.bundles import MANIFEST
from quantkit.files.contained import file_in
from quantkit.files.folders import Kind
from quantkit.files.schema import FirstFaultOnly, first_fault
from quantkit.files.text import parse_json, read_bytes
from quantkit.models.layout import InputLayout
from quantkit.models.model import WeightsKind
from quantkit.quantization.goal import MixedPrecision
from quantkit.quantization.plan import TensorDtype
from quantkit.quantization.ptq_config import PTQConfig
from quantkit.quantization.speed import SpeedProof

SYMBOL = "model-symbol.json"
PARAMS = "model-0000.params"
CARD = "card.toml"
LABELS = "labels.txt"
SAMPLE = "sample.npz"
OPERATORS = "operators.json"
TABLE = "calibration.json"
ONNX = "model.onnx"
CONFIG = "config.toml"

REQUIRED = frozenset({SYMBOL, PARAMS, CARD, SAMPLE, OPERATORS})
"""The files that every bundle holds besides the manifest."""

REQUIRED_INT8 = REQUIRED | {TABLE, CONFIG, FUSED_SYMBOL, FUSED_PARAMS, QUANTIZATION}
"""The files that every INT8 bundle holds besides the manifest.

The fused network takes its parameters from ``PARAMS``, and those that are not there from ``FUSED_PARAMS``.
"""

KNOWN = REQUIRED_INT8 | {MANIFEST, LABELS, ONNX}
"""The files that a bundle may hold."""

BUNDLE = Kind("a bundle", MANIFEST, KNOWN)
"""The kind of folder that a bundle is."""

_FORMAT: Literal["quantkit-bundle"] = "quantkit-bundle"
# Version 5 has no notes.
_Version = Literal[5, 6]
_VERSION: _Version = 6

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
class Input:
    """The network's one input; ``shape`` is without the batch axis, the first of ``layout``.

    ``vocabulary`` is that of the token ids it reads, which MXNet takes as float32; None, and left out of the file, if
    it reads none.
    """

    name: _Name
    shape: _Shape
    dtype: Literal["float32"] = "float32"
    layout: InputLayout = "NCHW"
    vocabulary: Optional[Vocabulary] = None


@dataclass(frozen=True)
class Output:
    """One of the network's outputs, float32; ``shape`` is without the batch axis.

    ``scores`` is the final operator that makes the output scores from 0 to 1; None if there is none.
    """

    name: _Name
    shape: tuple[Annotated[int, Field(gt=0)], ...]
    scores: Optional[Literal["softmax", "sigmoid"]] = None


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
    returned to FP32; None without a goal. ``speed`` is the proof that it is not slower than fused FP32; None where that
    was not asked for.
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
class AgreementResult:
    """The comparison of INT8 with FP32 on the calibration samples; see ``evaluation.agreement.Agreement``.

    ``top1`` is None if the outputs are not class scores. ``steps`` are of sequences, ``perplexity`` is of those whose
    steps have labels; both are left out of the file where there are none.
    """

    images: _Count
    top1: Optional[_Share]
    outputs: Annotated[tuple[OutputResult, ...], Field(min_length=1), FirstFaultOnly()]
    steps: tuple[StepResult, ...] = ()
    perplexity: Optional[PerplexityResult] = None

    @property
    def cosine(self) -> float:
        """The cosine of the first output."""
        return self.outputs[0].cosine


@dataclass(frozen=True)
class Manifest:
    """A bundle's description of itself.

    ``settings`` and ``agreement`` are None in bundles of kind ``fp32``; ``agreement`` is also None if it was not
    measured. ``files`` lists every file of the bundle except the manifest itself. ``class_scores`` says whether the
    (first) output is a row of class scores.

    ``sample`` is None, and left out of the file, if the stored sample is the first of the images in ``settings.data``,
    which are built in.

    ``notes`` say in which way the network differs from the one that was given, see ``models.model.Model``; left out of
    the file where there are none.
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


def manifest_text(manifest: Manifest) -> str:
    """The manifest as JSON; equal manifests give equal text."""
    document = asdict(manifest)
    if manifest.sample is None:
        del document["sample"]
    if not manifest.notes:
        del document["notes"]
    if manifest.input.vocabulary is None:
        del document["input"]["vocabulary"]
    agreement = document["agreement"] or {}
    for absent in [name for name in ("steps", "perplexity") if not agreement.get(name)]:
        agreement.pop(absent, None)
    return json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of the bundle in ``directory``.

    Raises:
        BundleError: there is none, or it is damaged, a link out of the bundle, of another version, or does not list a
            required file.
    """
    path = directory / MANIFEST
    try:
        content = read_bytes(file_in(directory, MANIFEST))
    except UserError as error:
        raise BundleError(f"{directory} is not a bundle: {error}") from error
    except OSError as error:
        raise BundleError(f"{directory} is not a bundle: cannot read {MANIFEST} ({error.strerror or error})") from error
    version = _version(content)
    if version is not None and version not in get_args(_Version):
        known = " and ".join(map(str, get_args(_Version)))
        raise BundleError(
            f"{path} has version {version!r}, but this quantkit reads versions {known}; use the one that wrote it"
        )
    try:
        manifest = _schema().validate_json(content)
    except ValidationError as error:
        where, what = first_fault(error)
        raise BundleError(f"{path} is damaged at {where or 'its beginning'}: {what}; write the bundle again") from error
    required = REQUIRED_INT8 if manifest.kind == "int8" else REQUIRED
    if missing := sorted(required - set(manifest.files)):
        raise BundleError(f"{path} does not list {', '.join(missing)}; write the bundle again")
    return manifest


@cache
def _schema() -> TypeAdapter[Manifest]:
    """The validator, made once: making it takes longer than using it."""
    return TypeAdapter(Manifest)


def _version(content: bytes) -> Optional[object]:
    """The version that a manifest states; None if it states none."""
    try:
        document = parse_json(content)
    except ValueError:
        return None
    return document.get("version") if isinstance(document, dict) else None
