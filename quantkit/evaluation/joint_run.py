"""Networks run over the same samples: what each says of every sample, and how far their outputs are apart."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, tee
from typing import Literal, Optional, get_args

import numpy as np

from quantkit.backends.mxnet.stream import BoundNetwork
from quantkit.data.aggregation import Partial, under
from quantkit.data.batches import Batch
from quantkit.errors import DataError
from quantkit.evaluation.accuracy import hits
from quantkit.evaluation.agreement import Agreement, AgreementSums, cosines, same_top1
from quantkit.evaluation.network import Network
from quantkit.evaluation.perplexity import Scale, check_step_labels, cross_entropies, scale_of, step_hits
from quantkit.formats.mxnet.nnvm import sha256_of
from quantkit.models.class_scores import ClassScores

Role = str
"""A network's role in an evaluation: ``network``, which is judged, ``reference``, what it should compute, or others of
any name that are compared with the reference, such as ``against``."""

Measured = Literal["top1", "top5", "same", "cosine", "cross-entropy"]
"""What is known of each sample: whether the label is the first or among the first five (of steps: the share), whether
the reference says the same, the cosine with the reference's outputs, and the cross-entropy per step in nats."""

_LABELLED, _SCALE, _AGREEMENT = "labelled", "scale", "agreement"
_SCALES: tuple[Scale, ...] = get_args(Scale)


@dataclass(frozen=True, eq=False)
class JointResult:
    """What networks have computed over the same samples.

    Attributes:
        images: the number of samples.
        class_scores: whether the outputs (those of each step, where every step has a row) are class scores.
        values: of each network and measure the value for each sample.
        agreement: that of each other network with the reference, if there is one.
        scales: what the scores of each step are, by network; empty unless steps have class scores and labels.
    """

    images: int
    class_scores: ClassScores
    values: Mapping[tuple[Role, Measured], np.ndarray]
    agreement: Mapping[Role, Agreement]
    scales: Mapping[Role, Scale]


@dataclass(frozen=True, eq=False)
class JointRun:
    """The ``Aggregation`` of an evaluation.

    Attributes:
        networks: the networks by role; ``network`` is required.
        batch_size: the number of samples in a run.
        data_name: where the samples come from, for messages.
        said: whether the outputs are class scores, as the user says; see ``class_scores``.
    """

    networks: Mapping[Role, Network]
    batch_size: int
    data_name: str
    said: Optional[bool] = None

    @property
    def per_step(self) -> Optional[ClassScores]:
        """Why every step has class scores if its label says so; None where none has."""
        return self.networks["network"].step_scores(self.said, labelled=True)

    @cached_property
    def _bound(self) -> list[BoundNetwork]:
        return [BoundNetwork(each.graph, self.batch_size) for each in self.networks.values()]

    @property
    def _steps(self) -> int:
        """How many rows of scores each sample has; 0 if the first output is one row."""
        return self.networks["network"].input_shape[0] if self.per_step else 0

    def key(self) -> str:
        """See ``Aggregation``."""
        graphs = {role: sha256_of(network.graph) for role, network in self.networks.items()}
        first = self.networks["network"]
        facts = ("outputs", graphs, self.batch_size, self.said, first.said, first.labels, repr(first.preparation))
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def partial(self, batches: Iterable[Batch]) -> Partial:
        """Run all networks batch by batch, and keep each sample's measures.

        Raises:
            UserError: nothing can be measured, as the outputs are not what the user says.
            DataError: the samples cannot be used, or nothing can be measured on them.
        """
        stream = iter(batches)
        begun = next(stream)
        labelled, first = begun.labels is not None, self.networks["network"]
        if begun.labels is not None:
            check_step_labels(begun.labels, self.per_step is not None, first.name)
        judged = self._judged(labelled)
        if "reference" not in self.networks:
            _check_measurable(first, judged, labelled)
        steps, kept, sums = self._steps, defaultdict(list), self._sums(judged)
        scales: dict[Role, Scale] = {}
        copies = tee(chain([begun], stream), len(self.networks) + 1)
        for batch, *results in zip(copies[0], *self._runs(copies[1:])):
            outputs = dict(zip(self.networks, results))
            for role, output in outputs.items():
                if judged.yes and batch.labels is not None and steps:
                    scale = scales.setdefault(role, scale_of(self.networks[role].graph, output[0]))
                    kept[role, "cross-entropy"].append(cross_entropies(output[0], batch.labels, scale))
                    kept[role, "top1"].append(step_hits(output[0], batch.labels))
                elif judged.yes and batch.labels is not None:
                    kept[role, "top1"].append(hits(output[0], batch.labels))
                    kept[role, "top5"].append(hits(output[0], batch.labels, 5))
                if "reference" in self.networks and role != "reference":
                    expected = outputs["reference"]
                    sums[role].add(expected, output)
                    kept[role, "cosine"].append(np.mean([cosines(a, b) for a, b in zip(expected, output)], axis=0))
                    if judged.yes and steps:
                        kept[role, "same"].append(step_hits(output[0], expected[0].argmax(axis=-1)))
                    elif judged.yes:
                        kept[role, "same"].append(same_top1(expected[0], output[0]))
        return {
            _LABELLED: np.array(labelled),
            **{f"{role}/{measured}": np.concatenate(parts) for (role, measured), parts in kept.items()},
            **{f"{role}/{_SCALE}": np.array(_SCALES.index(scale)) for role, scale in scales.items()},
            **{
                f"{role}/{_AGREEMENT}/{name}": values
                for role, running in sums.items()
                for name, values in running.state().items()
            },
        }

    def combine(self, partials: Iterable[Partial]) -> JointResult:
        """The measures of all samples.

        Raises:
            DataError: only some of the samples have labels, or only some of the scores look like probabilities.
        """
        kept: dict[str, list[np.ndarray]] = defaultdict(list)
        for part in partials:
            for name, array in part.items():
                kept[name].append(array)
        labelled = {bool(value) for value in kept.pop(_LABELLED)}
        if len(labelled) > 1:
            raise DataError(f"some samples of {self.data_name} have labels and some do not; label all or none")
        codes = {role: kept.pop(f"{role}/{_SCALE}", []) for role in self.networks}
        for role, found in codes.items():
            if len(set(map(int, found))) > 1:
                raise DataError(
                    f"the scores of {self.networks[role].name} are probabilities for some samples of {self.data_name} "
                    "and not for others; end the network with softmax"
                )
        joined = {name: np.concatenate(parts) for name, parts in kept.items()}
        judged = self._judged(labelled.pop())
        agreement = {}
        for role, sums in self._sums(judged).items():
            sums.restore(under(f"{role}/{_AGREEMENT}/", joined))
            agreement[role] = sums.result()
        values = {
            (role, measured): joined[f"{role}/{measured}"]
            for role in self.networks
            for measured in get_args(Measured)
            if f"{role}/{measured}" in joined
        }
        scales = {role: _SCALES[int(found[0])] for role, found in codes.items() if found}
        return JointResult(len(next(iter(values.values()))), judged, values, agreement, scales)

    def _judged(self, labelled: bool) -> ClassScores:
        first = self.networks["network"]
        return first.step_scores(self.said, labelled) or first.class_scores(self.said, labelled)

    def _sums(self, judged: ClassScores) -> dict[Role, AgreementSums]:
        """Empty sums for each network that is compared with a reference."""
        if "reference" not in self.networks:
            return {}
        names = [str(output) for output in self.networks["network"].graph.outputs]
        return {role: AgreementSums(names, judged.yes, self._steps) for role in self.networks if role != "reference"}

    def _runs(self, streams: Iterable[Iterable[Batch]]) -> list[Iterator[list[np.ndarray]]]:
        inputs = [(batch.data for batch in stream) for stream in streams]
        return [network.outputs(data) for network, data in zip(self._bound, inputs)]


def _check_measurable(network: Network, judged: ClassScores, labelled: bool) -> None:
    if not labelled:
        raise DataError("the data have no labels, so there is no accuracy to measure; give labels or a --reference")
    if not judged.yes:
        raise DataError(
            f"the outputs of {network.name} are not class scores ({judged.why}), so there is no accuracy to measure; "
            "give a --reference to compare them with, or --classes if they are"
        )
