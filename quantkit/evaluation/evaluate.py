"""Evaluating networks on images: accuracy, agreement with a reference, and differences that are more than chance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain, tee
from math import prod
from typing import Any, Literal, Optional, Union

import numpy as np

from quantkit.backends.mxnet.stream import outputs_of
from quantkit.data.batches import Batch, batches
from quantkit.data.samples import Samples
from quantkit.errors import DataError, UserError
from quantkit.evaluation.accuracy import Accuracy, hits
from quantkit.evaluation.agreement import Agreement, AgreementSums, cosines, same_top1
from quantkit.evaluation.network import Network
from quantkit.evaluation.paired import Paired, PairedMeans, paired, paired_means
from quantkit.evaluation.perplexity import (
    PerplexityChange,
    Scale,
    StepAccuracy,
    check_step_labels,
    cross_entropies,
    perplexity_change,
    scale_of,
    step_hits,
)
from quantkit.kinds import whole_number
from quantkit.models.class_scores import ClassScores
from quantkit.progress import Progress, silent

Role = Literal["network", "reference", "against"]
"""A network's role in an evaluation: the one that is judged, what it should compute, or another to compare it with."""

Measure = Literal["accuracy", "agreement", "cosine", "perplexity"]

BATCH_SIZE = 8

_PREFIXES: dict[Role, str] = {"network": "", "reference": "reference_", "against": "against_"}

_TOP1, _TOP5, _SAME, _COSINE, _ENTROPY = "top1", "top5", "same", "cosine", "cross-entropy"


@dataclass(frozen=True)
class Comparison:
    """The judged network paired with another, sample by sample.

    Classes are paired by correct answers (of sequences with scores at every step by shares of correct steps, and by
    perplexity), other outputs by cosines with the reference.
    """

    measure: Measure
    other: Role
    result: Union[Paired, PairedMeans, PerplexityChange]


@dataclass(frozen=True)
class Evaluation:
    """The results of an evaluation.

    Attributes:
        images: the number of samples.
        class_scores: whether the outputs (those of each step, where every step has a row) are class scores, and how
            that is known.
        accuracy: the accuracy of each network, if samples are labelled and outputs are class scores.
        agreement: the agreement of each other network with the reference, if there is one.
        comparisons: which network is better, and whether by more than chance.
        step_accuracy: perplexity and accuracy of each network, if every step has class scores and a label.
    """

    images: int
    class_scores: ClassScores
    accuracy: Mapping[Role, Accuracy]
    agreement: Mapping[Role, Agreement]
    comparisons: tuple[Comparison, ...]
    step_accuracy: Mapping[Role, StepAccuracy] = field(default_factory=dict)

    @property
    def loss(self) -> Optional[float]:
        """What the judged network loses against its reference, as ``quantize --max-drop`` bounds it.

        Points of top-1, or without labels of agreement; where every step has a label, the rise of perplexity in
        percent. None without a reference or class scores.
        """
        compared = {each.measure: each.result for each in self.comparisons if each.other == "reference"}
        result = compared.get("perplexity") or compared.get("accuracy")
        if isinstance(result, PerplexityChange):
            return result.change
        if result is not None:
            # No loss is 0, not -0.
            return 100 * (0.0 - result.difference)
        agreed = self.agreement.get("network")
        return None if agreed is None or agreed.top1 is None else 100 * (1 - agreed.top1)

    @property
    def document(self) -> dict[str, Any]:
        """The results as JSON values: shares from 0 to 1, ratios in dB; null for what was not measured."""
        top = {role: {"top1": each.top1, "top5": each.top5} for role, each in self.accuracy.items()}
        agreement = {role: each.document for role, each in self.agreement.items()}
        return {
            "images": self.images,
            "class_scores": asdict(self.class_scores),
            "accuracy": top.get("network"),
            "reference_accuracy": top.get("reference"),
            "against_accuracy": top.get("against"),
            "agreement": agreement.get("network"),
            "against_agreement": agreement.get("against"),
            **{f"{_PREFIXES[role]}step_accuracy": each.document for role, each in self.step_accuracy.items()},
            "comparisons": [
                {"measure": each.measure, "with": each.other, **asdict(each.result), "verdict": each.result.verdict}
                for each in self.comparisons
            ],
        }


def evaluate_networks(
    networks: Mapping[Role, Network],
    samples: Samples,
    batch_size: int = BATCH_SIZE,
    num_samples: Optional[int] = None,
    progress: Progress = silent,
    said: Optional[bool] = None,
) -> Evaluation:
    """Run networks over images in one pass; see ``Evaluation``.

    Args:
        networks: the networks by role; ``network`` is required.
        samples: the images.
        batch_size: the number of images in a run.
        num_samples: the number of images to use; None for all.
        progress: wraps the stream of batches.
        said: whether the outputs are class scores, as the user says; see ``class_scores``.

    Raises:
        UserError: the networks cannot be compared, or a number is not a whole one from 1 up.
        DataError: the images cannot be used, or nothing can be measured on them.
    """
    batch_size = whole_number("batch_size", batch_size, 1, BATCH_SIZE)
    if num_samples is not None:
        num_samples = whole_number("num_samples", num_samples, 1)
    check_comparable(networks)
    first = networks["network"]
    per_step = first.step_scores(said, labelled=True)
    bounded = per_step or first.class_scores(said, labelled=True)
    shape = first.output_shapes[0]
    classes = (prod(shape) if per_step is None else shape[-1]) if bounded.yes else None
    stream = iter(batches(samples, first.preparation, first.input_shape, batch_size, num_samples, classes))
    begun = next(stream)
    labelled = begun.labels is not None
    if begun.labels is not None:
        check_step_labels(begun.labels, per_step is not None, first.name)
    judged = first.step_scores(said, labelled) or first.class_scores(said, labelled)
    if "reference" not in networks:
        _check_measurable(first, judged, labelled)
    counted = progress(
        chain([begun], stream), _total(samples, num_samples, batch_size), f"evaluating on {samples.name}"
    )
    return _measured(networks, iter(counted), batch_size, judged, first.input_shape[0] if per_step else 0)


def check_comparable(networks: Mapping[Role, Network]) -> None:
    """Make sure that networks have the same input and output shapes.

    Raises:
        UserError: they have not, or another network has random weights and the judged one has not.
    """
    first = networks["network"]
    for role, other in networks.items():
        for what, one, two in (
            ("inputs of shape", _read(first), _read(other)),
            ("outputs of size", _sizes(first), _sizes(other)),
        ):
            if one != two:
                remedy = (
                    "give the network that it was made from" if role == "reference" else "give a form of the same one"
                )
                whose = "its reference" if role == "reference" else "the other network"
                raise UserError(f"{first.name} has {what} {one}, {whose} {other.name} {two}; {remedy}")
        if other.weights == "random" != first.weights:
            raise UserError(
                f"{other.name} has random weights here, so {first.name} would be compared with a network that was "
                "never trained; give its weights with --weights FILE, or the checkpoint or card that was quantized"
            )


def _read(network: Network) -> str:
    """The shape of a network's input, or its several inputs in their order."""
    return str(network.joined or network.input_shape)


def _sizes(network: Network) -> str:
    return " and ".join(str(prod(shape)) for shape in network.output_shapes)


def _check_measurable(network: Network, judged: ClassScores, labelled: bool) -> None:
    if not labelled:
        raise DataError("the data have no labels, so there is no accuracy to measure; give labels or a --reference")
    if not judged.yes:
        raise DataError(
            f"the outputs of {network.name} are not class scores ({judged.why}), so there is no accuracy to measure; "
            "give a --reference to compare them with, or --classes if they are"
        )


def _total(samples: Samples, num_samples: Optional[int], batch_size: int) -> int:
    known = [count for count in (samples.size, num_samples) if count is not None]
    return -(-min(known, default=0) // batch_size)


def _measured(
    networks: Mapping[Role, Network], stream: Iterator[Batch], batch_size: int, judged: ClassScores, steps: int
) -> Evaluation:
    """Run all networks batch by batch, collect each sample's measures, and sum them up.

    ``steps`` is how many rows of scores each sample has; 0 if the first output is one row.
    """
    kept: dict[tuple[Role, str], list[np.ndarray]] = defaultdict(list)
    names = [str(output) for output in networks["network"].graph.outputs]
    sums = {role: AgreementSums(names, judged.yes, steps) for role in networks if role != "reference"}
    scales: dict[Role, Scale] = {}
    images = 0
    copies = tee(stream, len(networks) + 1)
    inputs = [(batch.data for batch in copy) for copy in copies[1:]]
    runs = [outputs_of(network.graph, data, batch_size) for network, data in zip(networks.values(), inputs)]
    for batch, *results in zip(copies[0], *runs):
        outputs = dict(zip(networks, results))
        images += len(batch.data)
        for role, output in outputs.items():
            if judged.yes and batch.labels is not None and steps:
                scale = scales.setdefault(role, scale_of(networks[role].graph, output[0]))
                kept[role, _ENTROPY].append(cross_entropies(output[0], batch.labels, scale))
                kept[role, _TOP1].append(step_hits(output[0], batch.labels))
            elif judged.yes and batch.labels is not None:
                kept[role, _TOP1].append(hits(output[0], batch.labels))
                kept[role, _TOP5].append(hits(output[0], batch.labels, 5))
            if "reference" in networks and role != "reference":
                expected = outputs["reference"]
                sums[role].add(expected, output)
                kept[role, _COSINE].append(np.mean([cosines(a, b) for a, b in zip(expected, output)], axis=0))
                if judged.yes and steps:
                    kept[role, _SAME].append(step_hits(output[0], expected[0].argmax(axis=-1)))
                elif judged.yes:
                    kept[role, _SAME].append(same_top1(expected[0], output[0]))
    values = {key: np.concatenate(parts) for key, parts in kept.items()}
    return Evaluation(
        images,
        judged,
        {
            role: Accuracy(images, float(values[role, _TOP1].mean()), float(values[role, _TOP5].mean()))
            for role in networks
            if (role, _TOP5) in values
        },
        {role: running.result() for role, running in sums.items() if "reference" in networks},
        tuple(_comparisons(values)),
        {
            role: StepAccuracy(
                images,
                steps,
                float(values[role, _ENTROPY].mean()),
                float(values[role, _TOP1].mean()),
                scale,
            )
            for role, scale in scales.items()
        },
    )


def _comparisons(values: Mapping[tuple[Role, str], np.ndarray]) -> Iterator[Comparison]:
    """Pair the judged network with each of the others."""
    pairs: tuple[tuple[Measure, Role, str], ...] = (
        ("accuracy", "reference", _TOP1),
        ("accuracy", "against", _TOP1),
        ("agreement", "against", _SAME),
    )
    for measure, other, name in pairs:
        if (other, name) in values:
            one, two = values["network", name], values[other, name]
            yield Comparison(measure, other, paired(one, two) if one.dtype == bool else paired_means(one, two))
    others: tuple[Role, ...] = ("reference", "against")
    for other in others:
        if (other, _ENTROPY) in values:
            change = perplexity_change(values["network", _ENTROPY], values[other, _ENTROPY])
            yield Comparison("perplexity", other, change)
    if ("against", _COSINE) in values and ("against", _SAME) not in values:
        one, two = (values[role, _COSINE] for role in ("network", "against"))
        yield Comparison("cosine", "against", paired_means(one, two))
