"""A form of a network run over all images: what it makes of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import tee
from typing import Optional

import numpy as np

from quantkit.backends.mxnet.stream import BoundNetwork
from quantkit.data.aggregation import Partial
from quantkit.data.batches import Batch
from quantkit.data.digests import digests_of, joint_digest
from quantkit.errors import DataError
from quantkit.evaluation.perplexity import check_step_labels, cross_entropies, scale_of
from quantkit.formats.mxnet.nnvm import sha256_of
from quantkit.ir.graph import Graph

CHECKING = "checking a network over the evaluation images"
"""What a search calls that where work is told of."""

_OUTCOMES, _LABELS, _DIGESTS = "outcomes", "labels", "digests"


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What a network makes of images.

    Attributes:
        values: of each image, see ``Judged.outcomes_of``.
        labels: int64 of shape (images,), or (images, steps); None if there are none, or outputs are no class scores.
        sha256: the hash of the images, as the network reads them, and of these labels.
    """

    values: np.ndarray
    labels: Optional[np.ndarray]
    sha256: str


@dataclass(frozen=True, eq=False)
class OutcomeRun:
    """The ``Aggregation`` of what a form of a network makes of images.

    Attributes:
        graph: this form.
        original: the network whose scale of scores counts, where every step has a row; None where images have.
        class_scores: whether the outputs are class scores, which labels must fit.
        batch_size: the number of images in a run.
        name: the network's, for messages.
    """

    graph: Graph
    original: Optional[Graph]
    class_scores: bool
    batch_size: int
    name: str

    @cached_property
    def _network(self) -> BoundNetwork:
        return BoundNetwork(self.graph, self.batch_size)

    def key(self) -> str:
        """See ``Aggregation``."""
        original = None if self.original is None else sha256_of(self.original)
        facts = ("outcomes", sha256_of(self.graph), original, self.class_scores, self.batch_size)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def partial(self, batches: Iterable[Batch]) -> Partial:
        """Run the network batch by batch.

        Raises:
            DataError: the images cannot be used, or have labels of another shape than the scores.
        """
        read, beside = tee(batches)
        outcomes, digests, labels = [], [], []
        for batch, (first, *_) in zip(beside, self._network.outputs(_inputs(read))):
            digests.append(digests_of(batch.data))
            if self.class_scores and batch.labels is not None:
                check_step_labels(batch.labels, self.original is not None, self.name)
                labels.append(batch.labels)
            if self.original is not None and batch.labels is not None:
                outcomes.append(cross_entropies(first, batch.labels, scale_of(self.original, first)))
            else:
                outcomes.append(np.asarray(first.reshape(len(first), -1).argmax(axis=1)))
        found = {_OUTCOMES: np.concatenate(outcomes), _DIGESTS: np.concatenate(digests)}
        return {**found, _LABELS: np.concatenate(labels)} if labels else found

    def combine(self, partials: Iterable[Partial]) -> Outcomes:
        """The outcomes of all images.

        Raises:
            DataError: only some of the images have labels.
        """
        parts = list(partials)
        labels = [part[_LABELS] for part in parts if _LABELS in part]
        if labels and len(labels) < len(parts):
            raise DataError("some samples have labels and some do not; label all or none")
        known = np.concatenate(labels) if labels else None
        images = joint_digest(np.concatenate([part[_DIGESTS] for part in parts]))
        digest = hashlib.sha256(images.encode() + (b"" if known is None else known.tobytes()))
        return Outcomes(np.concatenate([part[_OUTCOMES] for part in parts]), known, digest.hexdigest())


def _inputs(batches: Iterable[Batch]) -> Iterator[np.ndarray]:
    return (batch.data for batch in batches)
