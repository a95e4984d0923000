"""Verifying a bundle, and its ONNX file in other engines."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

import numpy as np

from quantkit.backends.registry import ONNX_ENGINES, REFERENCE, unknown_engine
from quantkit.bundle.bundle import Bundle
from quantkit.bundle.export import check_int8_bundle, int8_onnx
from quantkit.bundle.file_names import lstm_form
from quantkit.bundle.manifest_file import read_manifest
from quantkit.bundle.read import open_bundle
from quantkit.bundle.verify import Check, Verification, verify_bundle, verify_files
from quantkit.data.batches import batches
from quantkit.data.sources import DataSource, load_data
from quantkit.diagnosis.parity.check import EngineParity, engine_parity
from quantkit.errors import EngineError, EngineMissing
from quantkit.progress import Progress, Tell, silent, untold

IMAGES = 100
"""The number of images to compare on, if no other is given."""

REFERENCE_IMAGES = 4
"""The number for the reference evaluator, which takes seconds per image."""

_BATCH_SIZE = 8


class NoMXNetWarning(UserWarning):
    """MXNet is not installed, so engines are compared on the stored sample alone."""


@dataclass(frozen=True)
class EnginesVerification:
    """The checks of a bundle, and of its ONNX file in engines.

    Attributes:
        bundle: the checks of the bundle itself.
        engine_checks: the checks of the engines, in their order; empty if the bundle failed.
        engines: how each engine compares with MXNet; those that cannot run the network are missing.
    """

    bundle: Verification
    engine_checks: tuple[Check, ...] = ()
    engines: tuple[EngineParity, ...] = ()

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks, in the order in which they were made."""
        return self.bundle.checks + self.engine_checks

    @property
    def ok(self) -> bool:
        """Whether every check succeeded."""
        return all(check.ok for check in self.checks)


def verify_in_engines(
    directory: Union[str, Path],
    engines: Sequence[str],
    evaluation_data: Optional[DataSource] = None,
    num_samples: Optional[int] = None,
    layers: bool = False,
    tell: Tell = untold,
    progress: Progress = silent,
) -> EnginesVerification:
    """Check a bundle, then run its INT8 network as an ONNX file in engines and compare each with MXNet.

    If the bundle does not hold its ONNX file, or not in the form whose LSTM layers an engine runs in INT8, it is made
    in memory. If MXNet is not installed, this warns with ``NoMXNetWarning``, checks only the bundle's files, and
    compares engines with the outputs that MXNet computed for the stored sample when the bundle was made.

    Args:
        directory: the bundle.
        engines: names from ``ONNX_ENGINES``.
        evaluation_data: images to compare on, anything that ``load_data`` takes. None for the built-in ones, or the
            stored sample if the bundle does not know how images are preprocessed.
        num_samples: the largest number of images; None for ``IMAGES``, or ``REFERENCE_IMAGES`` for the reference
            evaluator.
        layers: whether to compare layer by layer as well; this needs MXNet.
        tell: receives a line for each event.
        progress: wraps the streams of batches and of layers.

    Raises:
        UserError: the bundle holds an FP32 network.
        EngineMissing: an engine, or the package onnx, is not installed.
        DataError: the images cannot be used.
    """
    for engine in engines:
        if engine not in ONNX_ENGINES:
            raise unknown_engine(engine, ONNX_ENGINES)
    verified, has_mxnet = _verified(Path(directory))
    if not verified.ok:
        return EnginesVerification(verified)
    bundle = open_bundle(Path(directory), read_manifest(Path(directory)))
    check_int8_bundle(bundle)
    checks: list[Check] = []
    parities: list[EngineParity] = []
    for engine in dict.fromkeys(engines):
        content = _content(bundle, engine, tell)
        images = _images(bundle, engine, evaluation_data, num_samples, tell, progress) if has_mxnet else None
        try:
            parity = engine_parity(bundle, content, engine, images, _BATCH_SIZE, layers and has_mxnet, progress)
        except EngineError as error:
            checks.append(Check(engine, False, str(error)))
        else:
            checks += parity.checks
            parities.append(parity)
    return EnginesVerification(verified, tuple(checks), tuple(parities))


def _verified(directory: Path) -> tuple[Verification, bool]:
    """The checks of the bundle itself, of its files alone if there is no MXNet; and whether there is."""
    try:
        return verify_bundle(directory), True
    except EngineMissing:
        warnings.warn(
            "there is no MXNet in this environment: its network is not run, and engines are compared with what it "
            "computed for the stored sample when the bundle was made",
            NoMXNetWarning,
            stacklevel=3,
        )
    return verify_files(directory), False


def _content(bundle: Bundle, engine: str, tell: Tell) -> bytes:
    """The ONNX file of a bundle, in the form whose LSTM layers an engine runs in INT8."""
    form = lstm_form(engine)
    held = bundle.onnx(form)
    if held is not None:
        return held
    tell(f"{engine}: writing the network as ONNX, which the bundle does not hold")
    return int8_onnx(bundle.model, bundle.network, bundle.manifest.settings, lstm=form)


def _images(
    bundle: Bundle,
    engine: str,
    data: Optional[DataSource],
    num_samples: Optional[int],
    tell: Tell,
    progress: Progress,
) -> Optional[Iterator[np.ndarray]]:
    """Batches of the network's input; None if the preprocessing of photographs is not known."""
    if data is None and bundle.preprocess is None:
        tell(f"{engine}: the stored sample only, the preprocessing of images is not known; give images with --data")
        return None
    samples = load_data("builtin" if data is None else data)
    most = num_samples or (REFERENCE_IMAGES if engine == REFERENCE.name else IMAGES)
    count = most if samples.size is None else min(most, samples.size)
    stream = batches(samples, bundle.preparation, bundle.manifest.input.shape, _BATCH_SIZE, count)
    counted = progress(stream, -(-count // _BATCH_SIZE), f"comparing {engine} with MXNet on {samples.name}")
    return (batch.data for batch in counted)
