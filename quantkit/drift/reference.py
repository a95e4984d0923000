"""The signals of the samples that a network was calibrated on, and the file that stores them in a bundle."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from quantkit.drift.signals import AGREEMENT, Signals
from quantkit.errors import DataError
from quantkit.formats.npz import opened_npz, write_npz

SIGNAL = r"(input|output[0-9]?)(\.[a-z]{1,20}[0-9]{0,4}){1,2}"
"""The pattern of a signal's name, such as ``input.channel0.mean``."""

_NAME = re.compile(SIGNAL)

MOST_SIGNALS = 128
"""More signals than any network has."""

# More samples than are compared.
_MOST_SAMPLES = 10_000

_PART, _SHARE, _ROUNDING = 0.01, 0.001, 1e-6


@dataclass(frozen=True, eq=False)
class DriftReference:
    """The signals of the samples of calibration, ascending float64 of shape (samples,), by their names.

    Those of the input may be of more samples than those of outputs, for which the network has to run.
    """

    signals: Mapping[str, np.ndarray]

    @property
    def samples(self) -> int:
        """Of how many samples they are at most."""
        return max(map(len, self.signals.values()))

    @cached_property
    def means(self) -> Mapping[str, float]:
        """The mean of each signal."""
        return {name: float(values.mean()) for name, values in self.signals.items()}

    @cached_property
    def tolerances(self) -> Mapping[str, float]:
        """Changes of each signal that are of no account, such as those of rounding.

        These are a hundredth of the spread within a sample, or of that from sample to sample where there is none, and a
        thousandth of the values beyond a range.
        """
        return {name: self._tolerance(name, values) for name, values in self.signals.items()}

    def with_agreement(self, share: float, samples: int) -> DriftReference:
        """A copy with the signal of agreement with FP32: a share of a number of samples, of which 10,000 count."""
        number = min(samples, _MOST_SAMPLES)
        agreeing = (np.arange(number) >= round((1 - share) * number)).astype(np.float64)
        return DriftReference({**self.signals, AGREEMENT: agreeing})

    def _tolerance(self, name: str, values: np.ndarray) -> float:
        group, _, what = name.partition(".")
        if what == "beyond":
            return _SHARE
        within = self.means.get(f"{group}.spread")
        return _PART * (self.spreads[name] if within is None else abs(within)) + _ROUNDING * float(np.abs(values).max())

    @cached_property
    def spreads(self) -> Mapping[str, float]:
        """The standard deviation of each signal."""
        return {name: float(values.std()) for name, values in self.signals.items()}


def reference_of(parts: Sequence[Signals]) -> DriftReference:
    """The reference that the signals of some batches make, of which there must be at least one.

    Signals with values that are not finite are left out.
    """
    names = sorted({name for part in parts for name in part})
    joined = {name: np.sort(np.concatenate([part[name] for part in parts if name in part])) for name in names}
    return DriftReference({name: values for name, values in joined.items() if np.isfinite(values).all()})


def reference_bytes(reference: DriftReference) -> bytes:
    """The content of the file, an ``.npz`` archive of float32; equal references give equal bytes."""
    archive = io.BytesIO()
    write_npz(archive, {name: values.astype(np.float32) for name, values in reference.signals.items()})
    return archive.getvalue()


def read_reference(path: Path) -> DriftReference:
    """Read the file.

    Raises:
        DataError: it cannot be read, or holds something else.
    """
    found: dict[str, np.ndarray] = {}
    with opened_npz(path) as archive:
        if not 1 <= len(archive.names) <= MOST_SIGNALS:
            raise DataError(f"{path} holds {len(archive.names)} arrays, not 1 to {MOST_SIGNALS} signals")
        for name in archive.names:
            header = archive.header(name)
            if not _NAME.fullmatch(name) or name == AGREEMENT:
                raise DataError(f"{path} holds {name[:100]!r}, which is no signal")
            fits = len(header.shape) == 1 and 1 <= header.shape[0] <= _MOST_SAMPLES
            if not fits or header.dtype != np.float32:
                raise DataError(
                    f"{path}: {name} is {header.dtype} of shape {header.shape}, not float32 of up to {_MOST_SAMPLES} "
                    "samples"
                )
            found[name] = np.sort(archive.read(name).astype(np.float64))
            if not np.isfinite(found[name]).all():
                raise DataError(f"{path}: {name} holds NaN or infinite values")
    return DriftReference(found)
