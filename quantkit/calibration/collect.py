"""Collecting ranges: the network runs over the samples while an observer watches each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.calibration.methods import observer
from quantkit.calibration.ranges import Range
from quantkit.errors import DataError
from quantkit.host.threads import worker_threads
from quantkit.ir.graph import Graph, Tensor


def collect_ranges(
    graph: Graph, tensors: Sequence[Tensor], batches: Iterable[np.ndarray], batch_size: int, method: str
) -> dict[str, Range]:
    """Observe ``tensors`` while the network runs over ``batches``.

    The tensors become further outputs of the network, so the engine's threads call nothing back.
    Memory holds one batch at a time, however many there are.

    Args:
        graph: the network in a form that the engine runs.
        tensors: the tensors to observe; network inputs are allowed.
        batches: float32 inputs of at most ``batch_size`` samples each.
        batch_size: the batch size that the network is bound to.
        method: the calibration method; see ``methods.observer``.

    Raises:
        DataError: a tensor holds NaN or infinite values, or there were no batches.
    """
    watchers = {tensor: observer(method) for tensor in tensors}

    def observe(tensor: Tensor, value: np.ndarray) -> None:
        try:
            watchers[tensor].observe(value)
        except DataError as error:
            raise DataError(f"tensor {str(tensor)!r}: {error}") from error

    # Observers are independent of each other, and NumPy releases the interpreter lock.
    with ThreadPoolExecutor(worker_threads()) as pool:
        for values in outputs_of(graph.with_outputs(watchers).pruned(), batches, batch_size):
            for _ in pool.map(observe, watchers, values):
                pass
    return {str(tensor): watcher.range() for tensor, watcher in watchers.items()}
