"""What a deployment reads from a network's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from quantkit.data.sample_noun import SampleNoun
from quantkit.deployment.runner import Outputs
from quantkit.errors import EngineError


@dataclass(frozen=True)
class OutputReader:
    """Reads the outputs of a network.

    Attributes:
        name: the network's name, for messages.
        noun: what a sample is called.
        shape: of the first output, for one sample.
    """

    name: str
    noun: SampleNoun
    shape: tuple[int, ...]

    def whole(self, results: Iterable[Outputs]) -> np.ndarray:
        """The first output for all samples of all batches; there may be none.

        Raises:
            EngineError: it holds NaN or infinite values.
        """
        parts = list(self.first(results))
        if not parts:
            return np.empty((0, *self.shape), np.float32)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def first(self, results: Iterable[Outputs]) -> Iterator[np.ndarray]:
        """The first output for each batch.

        Raises:
            EngineError: it holds NaN or infinite values.
        """
        start = 0
        for outputs in results:
            yield self.finite(outputs[0], start)
            start += len(outputs[0])

    def finite(self, output: np.ndarray, start: int) -> np.ndarray:
        """An output, if all its values are finite; ``start`` is the number of its first sample.

        Raises:
            EngineError: some are not; the message names the sample.
        """
        if not np.isfinite(output).all():
            bad = next(index for index, values in enumerate(output, start) if not np.isfinite(values).all())
            raise EngineError(
                f"the network {self.name!r} computes NaN or infinite values for {self.noun} {bad}; "
                f"check the {self.noun}, and the bundle with `quantkit verify`"
            )
        return output
