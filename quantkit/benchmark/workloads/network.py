"""The interface of a measurable network: files that the workers of any build can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Protocol


@dataclass(frozen=True)
class Checkpoint:
    """A network on disk: its files by role, with the SHA-256 of each.

    MXNet's are ``symbol`` and ``params``, an ONNX file is ``onnx``, OpenVINO's are ``xml`` and ``bin``.
    """

    files: Mapping[str, Path]
    sha256: Mapping[str, str]


class Workload(Protocol):
    """A network prepared for measuring; the fields are those of ``quantkit.benchmark.results.results.Network``."""

    @property
    def name(self) -> str: ...
    @property
    def weights(self) -> str: ...
    @property
    def macs(self) -> int: ...
    @property
    def item(self) -> str: ...
    @property
    def accuracy(self) -> Mapping[str, float]: ...
    @property
    def input_name(self) -> str: ...
    @property
    def obstacles(self) -> Mapping[str, str]:
        """Why forms could not be made, for those that other quantizers refuse to make."""

    def checkpoint(self, form: str) -> Checkpoint:
        """The files of a form (see ``variants.py``)."""

    def inputs(self, batch: int) -> Path:
        """An .npy file with the input for a batch size."""

    def reference(self, variant: str, batch: int) -> Optional[Path]:
        """An .npz file with the outputs that a variant must have; None where another contestant sets the standard."""
