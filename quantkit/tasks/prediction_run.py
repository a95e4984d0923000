"""Networks run over the same images: what each predicts of every image."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import tee
from typing import Any

import numpy as np

from quantkit.backends.mxnet.stream import BoundNetwork
from quantkit.data.aggregation import Partial, under
from quantkit.data.batches import Batch
from quantkit.data.digests import digests_of, joint_digest
from quantkit.evaluation.joint_run import Role
from quantkit.formats.mxnet.nnvm import sha256_of
from quantkit.ir.graph import Graph
from quantkit.tasks.task import Task

_DIGESTS = "digests"


@dataclass(frozen=True, eq=False)
class Predictions:
    """What networks predict of images; each iteration unpacks them again, image by image, by the networks' roles.

    Attributes:
        task: how they are packed.
        roles: of the networks.
        parts: packed, in the order of the images.
        sha256: the ``joint_digest`` of the images, as the networks read them.
    """

    task: Task[Any, Any, Any]
    roles: tuple[Role, ...]
    parts: Sequence[Partial]
    sha256: str

    def __iter__(self) -> Iterator[Mapping[Role, Any]]:
        for part in self.parts:
            for predictions in zip(*(self.task.unpacked(under(f"{role}/", part)) for role in self.roles)):
                yield dict(zip(self.roles, predictions))


@dataclass(frozen=True, eq=False)
class PredictionRun:
    """The ``Aggregation`` of what networks predict.

    Attributes:
        task: how outputs are read.
        graphs: the networks by role.
        batch_size: the number of images in a run.
    """

    task: Task[Any, Any, Any]
    graphs: Mapping[Role, Graph]
    batch_size: int

    @cached_property
    def _networks(self) -> list[BoundNetwork]:
        return [BoundNetwork(graph, self.batch_size) for graph in self.graphs.values()]

    def key(self) -> str:
        """See ``Aggregation``."""
        graphs = {role: sha256_of(graph) for role, graph in self.graphs.items()}
        facts = ("predictions", repr(self.task), graphs, self.batch_size)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def partial(self, batches: Iterable[Batch]) -> Partial:
        """Run all networks batch by batch.

        Raises:
            DataError: the images cannot be used.
            EngineError: a network computes maps with NaN or infinite values.
        """
        kept: dict[str, list[np.ndarray]] = defaultdict(list)

        def digested() -> Iterator[np.ndarray]:
            for batch in batches:
                kept[_DIGESTS].append(digests_of(batch.data))
                yield batch.data

        copies = tee(digested(), len(self.graphs))
        runs = [network.outputs(data) for network, data in zip(self._networks, copies)]
        for results in zip(*runs):
            for role, outputs in zip(self.graphs, results):
                for name, array in self.task.packed(self.task.decode(outputs)).items():
                    kept[f"{role}/{name}"].append(array)
        return {name: np.concatenate(arrays) for name, arrays in kept.items()}

    def combine(self, partials: Iterable[Partial]) -> Predictions:
        """The predictions of all images."""
        parts = list(partials)
        return Predictions(
            self.task, tuple(self.graphs), parts, joint_digest(np.concatenate([part[_DIGESTS] for part in parts]))
        )
