"""BatchStream: which samples a network reads, in which form, and how many at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Optional

from quantkit.data.batches import Batch, batches
from quantkit.data.left_out import LeftOut
from quantkit.data.preparation import Preparation
from quantkit.data.samples import Samples


@dataclass(frozen=True, eq=False)
class BatchStream:
    """Samples to be read in batches; each iteration reads them again.

    Attributes:
        samples: the samples.
        preparation: how they become the network's input; see ``batches``.
        input_shape: of one sample, without the batch axis.
        batch_size: how many are read at a time; the last batch may be smaller.
        limit: how many are read at most, the first; None for all.
        classes: what bounds their labels, if anything does.
        left_out: is given the samples that are left out, by their positions; see ``Samples.skip_bad``.
    """

    samples: Samples
    preparation: Preparation
    input_shape: tuple[int, ...]
    batch_size: int
    limit: Optional[int] = None
    classes: Optional[int] = None
    left_out: dict[int, LeftOut] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Where the samples come from, for messages."""
        return self.samples.name

    @property
    def size(self) -> Optional[int]:
        """The number of samples, with those that are left out; None if it is unknown until all are read."""
        whole = self.samples.size if self.samples.positions is None else len(self.samples.positions)
        return whole if whole is None or self.limit is None else min(whole, self.limit)

    @property
    def steps(self) -> int:
        """The number of batches for a progress display; 0 if it is unknown."""
        return -(-(self.size or 0) // self.batch_size)

    def part(self, start: int, stop: int) -> BatchStream:
        """The samples from ``start`` up to ``stop``, which is not among them; fewer where the stream ends before.

        Its size must be known.
        """
        size, positions = self.size or 0, self.samples.positions
        wanted = (range(size) if positions is None else positions)[start : min(stop, size)]
        return replace(self, samples=replace(self.samples, positions=wanted), limit=None)

    def __iter__(self) -> Iterator[Batch]:
        """The batches; see ``batches`` for the errors."""
        form = self.preparation, self.input_shape, self.batch_size, self.limit, self.classes
        return batches(self.samples, *form, left_out=self.left_out)
