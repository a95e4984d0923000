"""Collecting ranges: the network runs over the samples, an observer watches each tensor."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.calibration.methods import observer
from quantkit.calibration.ranges import Range
from quantkit.errors import DataError
from quantkit.ir.graph import Graph, Tensor

# More would mostly wait for each other: every call needs Python's interpreter lock for a part of its time.
_MOST_THREADS = 16


def collect_ranges(
    graph: Graph, tensors: Sequence[Tensor], batches: Iterable[np.ndarray], batch_size: int, method: str
) -> dict[str, Range]:
    """Observe ``tensors`` while the network runs over ``batches``.

    The tensors come out of the network as further outputs, so nothing is called back from the
    engine's threads, and memory is that of one batch however many there are.

    Args:
        graph: the network in a form that the engine runs.
        tensors: what to observe, network inputs included.
        batches: float32 input, at most ``batch_size`` samples each.
        batch_size: what the network is bound to.
        method: a calibration method, as ``methods.observer`` reads it.

    Raises:
        DataError: a tensor holds NaN or infinite values, or there were no batches.
    """
    watchers = {tensor: observer(method) for tensor in tensors}

    def observe(tensor: Tensor, value: np.ndarray) -> None:
        try:
            watchers[tensor].observe(value)
        except DataError as error:
            raise DataError(f"tensor {str(tensor)!r}: {error}") from error

    # Observers know nothing of each other, and NumPy lets other threads work.
    with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), _MOST_THREADS)) as pool:
        for values in outputs_of(graph.with_outputs(watchers).pruned(), batches, batch_size):
            for _ in pool.map(observe, watchers, values):
                pass
    return {str(tensor): watcher.range() for tensor, watcher in watchers.items()}
