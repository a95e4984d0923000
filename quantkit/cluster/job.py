"""Job: an aggregation over samples in a form that other processes can carry out."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from quantkit.data.aggregation import Aggregation, Partial, partial_over
from quantkit.data.batch_stream import BatchStream
from quantkit.data.batches import Batch
from quantkit.data.preparation import Preparation
from quantkit.data.samples import Address, skipping
from quantkit.data.sources import load_data
from quantkit.errors import ClusterError

Positions = Union[range, tuple[int, ...]]

Shard = Union[Positions, list[Batch]]
"""Positions of samples at the job's address, or prepared samples where they have none."""


def samples_in(shard: Shard) -> int:
    """The number of a shard's samples."""
    return sum(len(batch.data) for batch in shard) if isinstance(shard, list) else len(shard)


@dataclass(frozen=True, eq=False)
class Job:
    """What to compute, and where its samples are.

    Attributes:
        aggregation: what to compute.
        address: what opens the samples anywhere, see ``Samples``; None: they come with each shard.
        preparation, input_shape, batch_size, classes: see ``BatchStream``.
        skip_bad: see ``Samples``.
    """

    aggregation: Aggregation[Any]
    address: Union[str, Address, None]
    preparation: Preparation
    input_shape: tuple[int, ...]
    batch_size: int
    classes: Optional[int]
    skip_bad: int

    @staticmethod
    def of(aggregation: Aggregation[Any], stream: BatchStream) -> Job:
        """The job of an aggregation over a stream; samples of an unknown number come with each shard."""
        return Job(
            aggregation,
            None if stream.size is None else stream.samples.address,
            stream.preparation,
            stream.input_shape,
            stream.batch_size,
            stream.classes,
            stream.samples.skip_bad,
        )

    def serialized(self) -> bytes:
        """The job for processes that trust this one."""
        return pickle.dumps(self, pickle.HIGHEST_PROTOCOL)

    def open(self) -> Optional[BatchStream]:
        """The samples at the job's address.

        Raises:
            DataError: they cannot be read here.
        """
        if self.address is None:
            return None
        opened = load_data(self.address) if isinstance(self.address, str) else self.address.open()
        samples = skipping(opened, self.skip_bad)
        return BatchStream(samples, self.preparation, self.input_shape, self.batch_size, None, self.classes)


def partial_of(aggregation: Aggregation[Any], stream: Optional[BatchStream], shard: Shard) -> Partial:
    """The partial result over a shard, see ``aggregation.partial_over``; ``stream`` is what ``Job.open`` gave."""
    if isinstance(shard, list):
        return aggregation.partial(shard)
    if stream is None:
        raise ClusterError("a shard came without its samples")
    return partial_over(aggregation, replace(stream, samples=replace(stream.samples, positions=shard)))
