"""What an epoch of a training has brought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Optional

from quantkit.training.validation import Validated


@dataclass(frozen=True)
class Epoch:
    """One pass over the training samples.

    Attributes:
        number: from 1.
        loss: the mean cross-entropy of its steps with their targets, in nats; of scores that are learned, half the
            mean square of the difference.
        rate: the learning rate of its last step.
        seconds: how long its steps took; the validation is not among them.
        samples: how many samples it learned from.
        waited: how many of the seconds samples were waited for. The engine may still have been at work on the end of
            the step before, so that it stood idle for no longer than this.
        validated: the accuracy after it; None without validation samples.
    """

    number: int
    loss: float
    rate: float
    seconds: float
    samples: int
    waited: float
    validated: Optional[Validated]

    @property
    def throughput(self) -> float:
        """Samples per second."""
        return self.samples / self.seconds

    @property
    def waiting(self) -> float:
        """The share of the time in which samples were waited for, from 0 to 1."""
        return self.waited / self.seconds

    def better_than(self, other: Epoch) -> bool:
        """Whether its network is better on the validation samples; without any the later one is."""
        if self.validated is None or other.validated is None:
            return True
        return self.validated.better_than(other.validated)


def epoch_of(facts: Mapping[str, Any]) -> Epoch:
    """The epoch of which ``dataclasses.asdict`` gave these facts.

    Raises:
        TypeError: they are not those of an epoch.
    """
    judged = facts["validated"]
    return Epoch(**{**facts, "validated": None if judged is None else Validated(**judged)})


def document_of(epoch: Epoch) -> dict[str, Any]:
    """What an epoch has brought, as JSON values."""
    return {**asdict(epoch), "images_per_second": epoch.throughput, "waiting": epoch.waiting}
