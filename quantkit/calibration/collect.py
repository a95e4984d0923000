"""Collecting ranges: the network runs over the samples while an observer watches each tensor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from quantkit.backends.mxnet.stream import BoundNetwork
from quantkit.calibration.methods import observer
from quantkit.calibration.observer import Observer
from quantkit.calibration.ranges import Range
from quantkit.data.aggregation import Partial, under
from quantkit.data.batches import Batch, varies
from quantkit.data.digests import digests_of, joint_digest
from quantkit.errors import DataError
from quantkit.formats.mxnet.nnvm import sha256_of
from quantkit.host.threads import worker_threads
from quantkit.ir.graph import Graph, Tensor

_VARIED, _DIGESTS, _OBSERVED = "varied", "digests", "observed/"


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
    watchers = _observed(_watched(graph, tensors, batch_size), tensors, batches, method)
    return {str(tensor): watcher.range() for tensor, watcher in watchers.items()}


@dataclass(frozen=True)
class Collected:
    """The range of each tensor by its name, the number of samples, and their ``joint_digest``."""

    ranges: Mapping[str, Range]
    samples: int
    data_sha256: str


@dataclass(frozen=True, eq=False)
class RangeCollection:
    """The ``Aggregation`` of a calibration: the ranges of tensors, and the hash of the samples that they come from.

    Attributes:
        graph, tensors, batch_size, method: see ``collect_ranges``.
        data_name: where the samples come from, for messages.
    """

    graph: Graph
    tensors: tuple[Tensor, ...]
    batch_size: int
    method: str
    data_name: str

    @cached_property
    def _network(self) -> BoundNetwork:
        return _watched(self.graph, self.tensors, self.batch_size)

    def key(self) -> str:
        """See ``Aggregation``."""
        facts = ("ranges", sha256_of(self.graph), list(map(str, self.tensors)), self.batch_size, self.method)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def partial(self, batches: Iterable[Batch]) -> Partial:
        """What the observers have seen, one array for all tensors, and the samples' digests.

        Raises:
            DataError: a sample cannot be used, or a tensor holds NaN or infinite values.
        """
        varied = False
        digests: list[np.ndarray] = []

        def inputs() -> Iterator[np.ndarray]:
            nonlocal varied
            for batch in batches:
                varied = varied or varies(batch)
                digests.append(digests_of(batch.data))
                yield batch.data

        watchers = _observed(self._network, self.tensors, inputs(), self.method)
        states = [watcher.state() for watcher in watchers.values()]
        observed = {
            _OBSERVED + name: np.stack([state[name] for state in states]) for name in observer(self.method).state()
        }
        return {**observed, _VARIED: np.array(varied), _DIGESTS: np.concatenate(digests)}

    def combine(self, partials: Iterable[Partial]) -> Collected:
        """The ranges.

        Raises:
            DataError: every sample (of images every channel) is constant, as in all-zero data.
        """
        varied = False
        digests: list[np.ndarray] = []
        merged = [observer(self.method) for _ in self.tensors]
        for part in partials:
            varied = varied or bool(part[_VARIED])
            digests.append(part[_DIGESTS])
            states = under(_OBSERVED, part)
            for row, own in enumerate(merged):
                other = observer(self.method)
                other.restore({name: values[row] for name, values in states.items()})
                own.merge(other)
        if not varied:
            raise DataError(
                f"every sample of {self.data_name} is constant (for example all zero); give real samples to calibrate "
                "with"
            )
        whole = np.concatenate(digests)
        ranges = {str(tensor): watcher.range() for tensor, watcher in zip(self.tensors, merged)}
        return Collected(ranges, len(whole), joint_digest(whole))


def _watched(graph: Graph, tensors: Sequence[Tensor], batch_size: int) -> BoundNetwork:
    """The network whose outputs are ``tensors``, each once."""
    return BoundNetwork(graph.with_outputs(dict.fromkeys(tensors)).pruned(), batch_size)


def _observed(
    network: BoundNetwork, tensors: Sequence[Tensor], batches: Iterable[np.ndarray], method: str
) -> dict[Tensor, Observer]:
    """The observers of ``tensors`` after the network, whose outputs they are, has run over ``batches``."""
    watchers = {tensor: observer(method) for tensor in tensors}

    def observe(tensor: Tensor, value: np.ndarray) -> None:
        try:
            watchers[tensor].observe(value)
        except DataError as error:
            raise DataError(f"tensor {str(tensor)!r}: {error}") from error

    # Observers are independent of each other, and NumPy releases the interpreter lock.
    with ThreadPoolExecutor(worker_threads()) as pool:
        for values in network.outputs(batches):
            for _ in pool.map(observe, watchers, values):
                pass
    return watchers
