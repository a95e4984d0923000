"""The one family of errors that quantkit raises on purpose.

Each message names what is wrong, where (by the user's own name for it), and the remedy. The command
line prints the message alone and ends with ``exit_code``: 2 where the user can correct the request, 1
where the work itself failed.
"""

from __future__ import annotations

from typing import Optional


class QuantkitError(Exception):
    """The work failed for a reason that quantkit understands."""

    exit_code = 1


class UserError(QuantkitError):
    """The request cannot be served as given: a wrong name, option, file or shape."""

    exit_code = 2


class ExtraMissing(UserError):
    """A package is not installed that an extra of quantkit brings; the message names both."""


class EngineMissing(ExtraMissing):
    """No engine that can do the work is installed in this environment."""


class ModelError(UserError):
    """A network, its parameters or its card cannot be used as they are."""


class DataError(UserError):
    """Sample data cannot be read, is too small, or holds values that cannot be used."""


class SampleError(DataError):
    """One sample cannot be read, decoded or used, which says nothing of the others.

    ``sample`` is its name; empty where the error came from another process.
    """

    def __init__(self, message: str, sample: str = "") -> None:
        super().__init__(message)
        self.sample = sample


class WeightsUnavailable(QuantkitError):
    """Trained weights were asked for and no source of them could be reached."""


class SamplesUnavailable(QuantkitError):
    """Sample data lie in an object store that cannot be reached, or fails."""


class FusionError(QuantkitError):
    """A fused network does not compute what the unfused one does."""


class EngineError(QuantkitError):
    """The engine refused or failed to run a network that looked valid."""


class ForkError(EngineError):
    """An engine or a network was loaded before this process was forked, and does not work in it."""


class TrainingError(QuantkitError):
    """A training diverges, or loses what it runs on."""


class DeadlineExceeded(QuantkitError):
    """A request was not answered in the time that its caller allowed."""


class PeerError(QuantkitError):
    """Another quantizer, which quantkit is compared with, failed on a network."""


class BundleError(QuantkitError):
    """A bundle on disk is incomplete, altered, or does not reproduce its stored output."""


class ClusterError(QuantkitError):
    """A cluster cannot be used: its workers differ, are lost, or none is left."""


class InstanceError(QuantkitError):
    """An instance of a benchmark or a deployment cannot start, died, hangs, or does not keep to the protocol.

    ``kind`` says which: ``start``, ``killed``, ``crashed``, ``hung``, ``late``, ``protocol``, ``output``,
    ``placement``, ``kernels``, ``loadgen`` or ``disk``. ``stderr`` holds its last lines on standard error, ``instance``
    is its number among those that work together.
    """

    def __init__(self, kind: str, message: str, stderr: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.stderr = stderr
        self.instance: Optional[int] = None


def error_of(kind: str, message: str, otherwise: type[QuantkitError]) -> QuantkitError:
    """The error that another process told by its class and message; of a class that needs more, ``otherwise``."""
    known = globals().get(kind)
    if not isinstance(known, type) or not issubclass(known, QuantkitError) or known is InstanceError:
        known = otherwise
    return known(message)
