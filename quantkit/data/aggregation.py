"""Aggregation: what is computed over samples in parts, and is the same however the samples are shared out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol, TypeVar

import numpy as np

from quantkit.data.batch_stream import BatchStream
from quantkit.data.batches import Batch
from quantkit.data.left_out import Tally, from_numbers, in_order, none_left, to_numbers
from quantkit.progress import Progress, silent

Result = TypeVar("Result")
Combined = TypeVar("Combined", covariant=True)

Partial = Mapping[str, np.ndarray]
"""The result over some of the batches: arrays of numbers or booleans, which can be stored and sent as they are."""

_LEFT_OUT = "left out"


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
        """The result of ``aggregation`` over ``stream``; ``progress`` shows how far it has come, under ``title``.

        What is left out is noted in ``stream.left_out``.
        """


@dataclass(frozen=True)
class InThisProcess:
    """The ``Executor`` of this process, which computes in one piece."""

    environment: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str) -> Result:
        """See ``Executor``."""
        return combined(aggregation, [partial_over(aggregation, stream, progress, title)], stream)


in_this_process = InThisProcess()


def partial_over(
    aggregation: Aggregation[Result], stream: BatchStream, progress: Progress = silent, title: str = ""
) -> Partial:
    """The result over a stream, or a part of one, with what was left out beside it; that alone if nothing is left.

    Raises:
        DataError: more than ``skip_bad`` of these samples cannot be read or used.
        QuantkitError: what the aggregation raises.
    """
    own = replace(stream, left_out={})
    batches = iter(progress(own, own.steps, title))
    begun = next(batches, None)
    found = {} if begun is None else aggregation.partial(chain([begun], batches))
    return {**found, _LEFT_OUT: to_numbers(in_order(own.left_out))} if own.left_out else found


def combined(aggregation: Aggregation[Result], partials: Iterable[Partial], stream: BatchStream) -> Result:
    """The result over a whole stream from those of ``partial_over``, in the order of the samples.

    Raises:
        DataError: more than ``skip_bad`` samples of all parts together cannot be read or used, or no part has others.
        QuantkitError: what the aggregation raises.
    """
    tally = Tally(stream.samples.skip_bad, stream.left_out)

    def of_samples() -> Iterator[Partial]:
        for part in partials:
            if _LEFT_OUT in part:
                for each in from_numbers(part[_LEFT_OUT]):
                    tally.add(each)
            if found := {name: values for name, values in part.items() if name != _LEFT_OUT}:
                yield found

    remaining = of_samples()
    begun = next(remaining, None)
    if begun is None:
        raise none_left(stream.name, stream.left_out)
    return aggregation.combine(chain([begun], remaining))
