"""Aggregations carried out in this process, over parts of the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quantkit.data.aggregation import Aggregation, Result, combined, partial_over
from quantkit.data.batch_stream import BatchStream
from quantkit.progress import Progress


@dataclass(frozen=True)
class InParts:
    """An executor that cuts streams into parts of ``size`` samples, a multiple of the batch size."""

    size: int
    environment: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, aggregation: Aggregation[Result], stream: BatchStream, progress: Progress, title: str) -> Result:
        assert stream.size is not None and not self.size % stream.batch_size
        parts = [stream.part(start, start + self.size) for start in range(0, stream.size, self.size)]
        assert sum(part.size or 0 for part in parts) == stream.size
        # Whatever comes first, the samples' order is that of the parts.
        partials = {number: partial_over(aggregation, parts[number]) for number in reversed(range(len(parts)))}
        return combined(aggregation, [partials[number] for number in range(len(parts))], stream)
