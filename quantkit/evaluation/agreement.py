"""How close one network's outputs are to another's, image by image and output by output."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional

import numpy as np

from quantkit.evaluation.deviation import DeviationSums
from quantkit.evaluation.measure import Score
from quantkit.evaluation.perplexity import PerplexityAgreement
from quantkit.units import decibels, percent

# Steps of a sequence at which errors are told; an odd number, so that the middle is among them.
_SHOWN_STEPS = 9

_SAME = "same"

Outputs = Sequence[np.ndarray]
"""A network's outputs for a batch, each of shape (images, ...)."""


@dataclass(frozen=True)
class OutputAgreement:
    """How close one output is to the reference's.

    Attributes:
        name: the output's name.
        cosine: the cosine of the two outputs as vectors, averaged over images.
        sqnr: the signal-to-quantization-noise ratio over all values in dB; infinite if nothing deviates.
        deviation: the largest absolute deviation of a value.
        largest: the largest absolute value of the reference, in the same units.
    """

    name: str
    cosine: float
    sqnr: float
    deviation: float
    largest: float

    @property
    def text(self) -> str:
        """The measures in words."""
        return (
            f"cosine {self.cosine:.4f}, signal to noise {decibels(self.sqnr)}, largest deviation {self.deviation:.3g} "
            f"of values up to {self.largest:.3g}"
        )


@dataclass(frozen=True)
class StepNoise:
    """The signal-to-quantization-noise ratio of the first output at one step, counted from 1, in dB."""

    step: int
    sqnr: float


@dataclass(frozen=True)
class Agreement:
    """How close a network's outputs are to a reference's.

    Attributes:
        images: the number of samples.
        top1: the share of samples with the same prediction, from 0 to 1 (of steps, where each has class scores); None
            if the outputs are not class scores.
        outputs: how close each output is.
        steps: how errors grow over the steps of sequences, from the first to the last; empty for other networks.
        perplexity: the change of perplexity from the reference's; None where steps have no labels.
        scores: of the task, the reference's predictions taken for the truth; empty where class scores or plain values
            tell.
    """

    images: int
    top1: Optional[float]
    outputs: tuple[OutputAgreement, ...]
    steps: tuple[StepNoise, ...] = ()
    perplexity: Optional[PerplexityAgreement] = None
    scores: tuple[Score, ...] = ()

    @property
    def cosine(self) -> float:
        """The cosine of the first output."""
        return self.outputs[0].cosine

    @property
    def texts(self) -> tuple[str, ...]:
        """The measures in words: one line for each score of the task, or for class scores, or for each output.

        One more tells of the steps.
        """
        if any(score.value is not None for score in self.scores):
            scores = tuple(score.text for score in self.scores)
            # Of several, such as lists of detections, the values do not belong to each other.
            return (*scores, self.outputs[0].text) if len(self.outputs) == 1 else scores
        over_time = (self._steps_text,) if self.steps else ()
        if self.perplexity is not None:
            over_time = (*over_time, self.perplexity.text)
        if self.top1 is not None:
            of_steps = " of steps" if self.steps else ""
            return (f"top-1 the same for {percent(self.top1)}{of_steps}, cosine {self.cosine:.4f}", *over_time)
        if len(self.outputs) == 1:
            return (self.outputs[0].text, *over_time)
        return (*(f"{output.name}: {output.text}" for output in self.outputs), *over_time)

    @property
    def _steps_text(self) -> str:
        shown = dict.fromkeys((self.steps[0], self.steps[len(self.steps) // 2], self.steps[-1]))
        ratios = [f"{decibels(each.sqnr)} at step {each.step}" for each in shown]
        return f"signal to noise {', '.join(ratios)}"

    @property
    def document(self) -> dict[str, Any]:
        """The measures as JSON values; ``sqnr`` is null if it is not finite."""
        more: dict[str, Any] = {}
        if self.steps:
            more["steps"] = [{"step": each.step, "sqnr": _finite(each.sqnr)} for each in self.steps]
        if self.perplexity is not None:
            more["perplexity"] = self.perplexity.document
        if self.scores:
            more["scores"] = [asdict(score) for score in self.scores]
        return {
            **more,
            "top1": self.top1,
            "cosine": self.cosine,
            "outputs": [
                {
                    "name": output.name,
                    "cosine": output.cosine,
                    "sqnr": _finite(output.sqnr),
                    "deviation": output.deviation,
                    "largest": output.largest,
                }
                for output in self.outputs
            ],
        }


def _finite(ratio: float) -> Optional[float]:
    return ratio if math.isfinite(ratio) else None


def same_top1(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Whether outputs of shape (images, ...) have their largest value at the same place: booleans (images,)."""
    a, b = (value.reshape(len(value), -1).argmax(axis=1) for value in (reference, other))
    same: np.ndarray = a == b
    return same


def cosines(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The cosine of each image's outputs as vectors, float64 of shape (images,).

    The cosine of two zero vectors is 1, that of a zero and another vector 0.
    """
    a, b = (np.asarray(value, np.float64).reshape(len(value), -1) for value in (reference, other))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    equal = (a == b).all(axis=1)
    return np.where(norms > 0, (a * b).sum(axis=1) / np.where(norms > 0, norms, 1.0), equal)


class AgreementSums:
    """Sums over outputs, batch by batch, which do not depend on the order of the batches.

    Memory holds a few numbers for each image and batch.
    """

    def __init__(self, names: Sequence[str], class_scores: bool, steps: int = 0) -> None:
        """Start with no outputs.

        Args:
            names: those of the outputs.
            class_scores: whether the first is a row of class scores, or one for every step.
            steps: how many steps the first output has; 0 if it has none.
        """
        self._outputs = [_OutputSums(name) for name in names]
        self._class_scores = class_scores
        self._steps = {step: DeviationSums() for step in _shown_steps(steps)}
        self._same: list[np.ndarray] = []

    def add(self, reference: Outputs, other: Outputs) -> None:
        """Add both networks' outputs for the same images."""
        if self._class_scores:
            self._same.append(same_top1(*map(self._rows, (reference[0], other[0]))))
        for step, noise in self._steps.items():
            noise.add(reference[0][:, step], other[0][:, step])
        for sums, expected, actual in zip(self._outputs, reference, other, strict=True):
            sums.add(expected, actual)

    def state(self) -> dict[str, np.ndarray]:
        """What has been added; ``state`` of several, one after the other, is that of all together."""
        return {
            _SAME: np.concatenate([np.empty(0, bool), *self._same]),
            **{f"step{step}": noise.state for step, noise in self._steps.items()},
            **{
                f"output{number}/{name}": values
                for number, sums in enumerate(self._outputs)
                for name, values in sums.state().items()
            },
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take over the ``state`` of other sums over the same outputs, in place of the own."""
        self._same = [state[_SAME]]
        for step, noise in self._steps.items():
            noise.restore(state[f"step{step}"])
        for number, sums in enumerate(self._outputs):
            sums.restore({name: state[f"output{number}/{name}"] for name in sums.state()})

    def result(self) -> Agreement:
        """The agreement over all images added, of which there must be at least one."""
        top1 = float(np.concatenate(self._same).mean()) if self._class_scores else None
        steps = tuple(StepNoise(step + 1, noise.result().sqnr) for step, noise in self._steps.items())
        return Agreement(self._outputs[0].images, top1, tuple(sums.result() for sums in self._outputs), steps)

    def _rows(self, scores: np.ndarray) -> np.ndarray:
        return scores.reshape(-1, scores.shape[-1]) if self._steps else scores


def _shown_steps(steps: int) -> tuple[int, ...]:
    """Some of so many steps, from the first to the last, in equal distances."""
    return tuple(dict.fromkeys(round(place) for place in np.linspace(0, steps - 1, _SHOWN_STEPS))) if steps else ()


class _OutputSums:
    """Sums over one output."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._noise = DeviationSums()
        self._cosines: list[np.ndarray] = []
        self._peaks: list[np.ndarray] = []

    @property
    def images(self) -> int:
        return sum(map(len, self._cosines))

    def add(self, expected: np.ndarray, actual: np.ndarray) -> None:
        # Rows of scores may have further axes of 1 in one of the networks.
        actual = actual.reshape(expected.shape)
        self._cosines.append(cosines(expected, actual))
        self._noise.add(expected, actual)
        peaks = (np.abs(values).max(initial=0.0) for values in (expected - actual, expected))
        self._peaks.append(np.array([[float(peak) for peak in peaks]]))

    def state(self) -> dict[str, np.ndarray]:
        """Cosines of shape (images,), and of each batch its sums and its largest deviation and value (batches, 2)."""
        return {
            "cosines": np.concatenate([np.empty(0), *self._cosines]),
            "noise": self._noise.state,
            "peaks": np.concatenate([np.empty((0, 2)), *self._peaks]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self._cosines, self._peaks = [state["cosines"]], [state["peaks"]]
        self._noise.restore(state["noise"])

    def result(self) -> OutputAgreement:
        cosine = math.fsum(np.concatenate(self._cosines)) / self.images
        deviation, largest = map(float, np.concatenate(self._peaks).max(axis=0))
        return OutputAgreement(self._name, cosine, self._noise.result().sqnr, deviation, largest)


def agreement(
    pairs: Iterable[tuple[Outputs, Outputs]], names: Sequence[str], class_scores: bool, steps: int = 0
) -> Agreement:
    """Compare the outputs of two networks.

    Top-1 alone hides changes that cancel; the cosine of each image's outputs as vectors does not.

    Args:
        pairs: the outputs (reference, other) of each batch.
        names: the names of the outputs.
        class_scores: whether the first output is a row of class scores, or one for every step; see
            ``class_scores.class_scores``.
        steps: how many steps the first output has; 0 if it has none.
    """
    sums = AgreementSums(names, class_scores, steps)
    for reference, other in pairs:
        sums.add(reference, other)
    return sums.result()
