"""Aggregation: what is computed over samples in parts, and is the same however the samples are shared out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from quantkit.data.batch_stream import BatchStream
from quantkit.data.batches import Batch
from quantkit.progress import Progress

Result = TypeVar("Result")
Combined = TypeVar("Combined", covariant=True)

Partial = Mapping[str, np.ndarray]
"""The result over some of the batches: arrays of numbers or booleans, which can be stored and sent as they are."""


def under(prefix: str, partial: Partial) -> Partial:
    """The arrays of a partial result whose names begin with ``prefix``, by the rest of their names."""
    return {name.removeprefix(prefix): values for name, values in partial.items() if name.startswith(prefix)}


class Aggregation(Protocol[Combined]):
    """A computation over a stream of batches.

    Whoever shares out the stream cuts it between batches, never within one: an engine's results for a sample may depend
    on how many others it runs with. ``combine`` then gives the same result to the last bit for any cuts.
    """

    def key(self) -> str:
        """A hash of all that the result depends on beside the samples; the same in every process."""

    def partial(self, batches: Iterable[Batch]) -> Partial:
        """The result over consecutive batches, of which there is at least one."""

    def combine(self, partials: Iterable[Partial]) -> Combined:
        """The result over all batches, from the partial results in the order of the samples, each looked at once."""


class Executor(Protocol):
    """Carries out aggregations, in this process or in others.

    When a call returns, nothing of it computes on this host any more, so that time can be measured.
    """

    @property
    def environment(self) -> Mapping[str, Any]:
        """What results depend on that is another's than this process's, as JSON values."""

    def __call__(self, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str) -> Result:
        """The result of ``aggregation`` over ``stream``; ``progress`` shows how far it has come, under ``title``."""


@dataclass(frozen=True)
class InThisProcess:
    """The ``Executor`` of this process, which computes in one piece."""

    environment: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str) -> Result:
        """See ``Executor``."""
        return aggregation.combine([aggregation.partial(progress(stream, stream.steps, title))])


in_this_process = InThisProcess()
