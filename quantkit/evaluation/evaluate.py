"""Evaluating networks on images: accuracy, agreement with a reference, and differences that are more than chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from math import prod
from typing import Any, Literal, Optional, Union

import numpy as np

from quantkit.data.aggregation import Executor, in_this_process
from quantkit.data.batch_stream import BatchStream
from quantkit.data.left_out import LeftOut, documents, in_order
from quantkit.data.samples import Samples
from quantkit.errors import UserError
from quantkit.evaluation.accuracy import Accuracy
from quantkit.evaluation.agreement import Agreement
from quantkit.evaluation.joint_run import JointResult, JointRun, Measured, Role
from quantkit.evaluation.network import Network
from quantkit.evaluation.paired import Paired, PairedMeans, paired, paired_means
from quantkit.evaluation.perplexity import PerplexityChange, StepAccuracy, perplexity_change
from quantkit.kinds import whole_number
from quantkit.models.class_scores import ClassScores
from quantkit.progress import Progress, silent

Measure = Literal["accuracy", "agreement", "cosine", "perplexity"]

BATCH_SIZE = 8

_PREFIXES: dict[Role, str] = {"network": "", "reference": "reference_", "against": "against_"}


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
        left_out: the samples that cannot be read or used and were left out; they are not among ``images``.
    """

    images: int
    class_scores: ClassScores
    accuracy: Mapping[Role, Accuracy]
    agreement: Mapping[Role, Agreement]
    comparisons: tuple[Comparison, ...]
    step_accuracy: Mapping[Role, StepAccuracy] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()

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
            "left_out": documents(self.left_out),
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
    executor: Executor = in_this_process,
) -> Evaluation:
    """Run networks over images in one pass; see ``Evaluation``.

    Args:
        networks: the networks by role; ``network`` is required.
        samples: the images; those that ``samples.skip_bad`` allows to leave out are missing in the results.
        batch_size: the number of images in a run.
        num_samples: the number of images to use; None for all.
        progress: wraps the stream of batches.
        said: whether the outputs are class scores, as the user says; see ``class_scores``.
        executor: where to run the networks: in this process, or elsewhere.

    Raises:
        UserError: the networks cannot be compared, or a number is not a whole one from 1 up.
        DataError: the images cannot be used, or nothing can be measured on them.
    """
    batch_size = whole_number("batch_size", batch_size, 1, BATCH_SIZE)
    if num_samples is not None:
        num_samples = whole_number("num_samples", num_samples, 1)
    check_comparable(networks)
    first = networks["network"]
    run = JointRun(networks, batch_size, samples.name, said)
    per_step = run.per_step
    bounded = per_step or first.class_scores(said, labelled=True)
    shape = first.output_shapes[0]
    classes = (prod(shape) if per_step is None else shape[-1]) if bounded.yes else None
    stream = BatchStream(samples, first.preparation, first.input_shape, batch_size, num_samples, classes)
    found = executor(run, stream, progress, f"evaluating on {samples.name}")
    return replace(_evaluation(found, first.input_shape[0]), left_out=in_order(stream.left_out))


def _evaluation(found: JointResult, steps: int) -> Evaluation:
    """The results; ``steps`` is how many a sample has, where every step has class scores and a label."""
    values, images = found.values, found.images
    return Evaluation(
        images,
        found.class_scores,
        {
            role: Accuracy(images, float(top1.mean()), float(values[role, "top5"].mean()))
            for (role, measured), top1 in values.items()
            if measured == "top1" and (role, "top5") in values
        },
        found.agreement,
        tuple(_comparisons(values)),
        {
            role: StepAccuracy(
                images,
                steps,
                float(values[role, "cross-entropy"].mean()),
                float(values[role, "top1"].mean()),
                scale,
            )
            for role, scale in found.scales.items()
        },
    )


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


def _comparisons(values: Mapping[tuple[Role, Measured], np.ndarray]) -> Iterator[Comparison]:
    """Pair the judged network with each of the others."""
    pairs: tuple[tuple[Measure, Role, Measured], ...] = (
        ("accuracy", "reference", "top1"),
        ("accuracy", "against", "top1"),
        ("agreement", "against", "same"),
    )
    for measure, other, name in pairs:
        if (other, name) in values:
            one, two = values["network", name], values[other, name]
            yield Comparison(measure, other, paired(one, two) if one.dtype == bool else paired_means(one, two))
    others: tuple[Role, ...] = ("reference", "against")
    for other in others:
        if (other, "cross-entropy") in values:
            change = perplexity_change(values["network", "cross-entropy"], values[other, "cross-entropy"])
            yield Comparison("perplexity", other, change)
    if ("against", "cosine") in values and ("against", "same") not in values:
        one, two = (values[role, "cosine"] for role in ("network", "against"))
        yield Comparison("cosine", "against", paired_means(one, two))
