"""Job: an aggregation over samples in a form that other processes can carry out."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Optional, Union

from quantkit.data.aggregation import Aggregation
from quantkit.data.batch_stream import BatchStream
from quantkit.data.batches import Batch
from quantkit.data.preparation import Preparation
from quantkit.data.sources import load_data
from quantkit.errors import ClusterError

Positions = Union[range, tuple[int, ...]]

Shard = Union[Positions, list[Batch]]
"""Positions of samples at the job's address, or prepared samples where they have none."""


@dataclass(frozen=True, eq=False)
class Job:
    """What to compute, and where its samples are.

    Attributes:
        aggregation: what to compute.
        address: the samples by name, as ``load_data`` opens them anywhere; None: they come with each shard.
        preparation, input_shape, batch_size, classes: see ``BatchStream``.
    """

    aggregation: Aggregation[Any]
    address: Optional[str]
    preparation: Preparation
    input_shape: tuple[int, ...]
    batch_size: int
    classes: Optional[int]

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
        samples = load_data(self.address)
        return BatchStream(samples, self.preparation, self.input_shape, self.batch_size, None, self.classes)


def batches_of(stream: Optional[BatchStream], shard: Shard) -> Iterable[Batch]:
    """The batches of a shard; ``stream`` is what ``Job.open`` gave."""
    if isinstance(shard, list):
        return shard
    if stream is None:
        raise ClusterError("a shard came without its samples")
    return replace(stream, samples=replace(stream.samples, positions=shard))
