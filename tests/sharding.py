"""Aggregations carried out in this process, over parts of the samples."""

from __future__ import annotations

from quantkit.data.aggregation import Aggregation, Executor, Result
from quantkit.data.batch_stream import BatchStream
from quantkit.progress import Progress


def in_parts(size: int) -> Executor:
    """An executor that cuts streams into parts of ``size`` samples, a multiple of the batch size."""

    def execute(aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str) -> Result:
        assert stream.size is not None and not size % stream.batch_size
        parts = [stream.part(start, start + size) for start in range(0, stream.size, size)]
        assert sum(part.size or 0 for part in parts) == stream.size
        # Whatever comes first, the samples' order is that of the parts.
        partials = {number: aggregation.partial(parts[number]) for number in reversed(range(len(parts)))}
        return aggregation.combine([partials[number] for number in range(len(parts))])

    return execute
