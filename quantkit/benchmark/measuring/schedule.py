"""Dividing a limited time among networks, batch sizes and contestants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Optional, TypeVar

Key = TypeVar("Key")

ROUNDS = 10
LEAST_ROUNDS = 3
_SLICE = 1.0
_SLICES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.15, 0.1)
_WARM_UP = 2.0
# Binding a network to a batch, collecting outputs, waiting for each other.
_OVERHEAD = 0.3


@dataclass(frozen=True)
class Pace:
    """How a group of contestants is measured: ``rounds`` turns of ``seconds`` each, after a warm-up of at most that."""

    rounds: int
    seconds: float
    warm_up: float


def pace(requests: Sequence[float], available: Optional[float]) -> Pace:
    """The most thorough pace that fits.

    Args:
        requests: how long one request of each contestant takes, in seconds.
        available: the seconds for the whole group; None where time does not matter.
    """
    if available is None:
        return Pace(ROUNDS, _SLICE, _WARM_UP)
    # More rounds show more of the machine's moods than longer ones do.
    for rounds in range(ROUNDS, LEAST_ROUNDS - 1, -1):
        for seconds in _SLICES:
            found = Pace(rounds, seconds, 2 * seconds)
            if _cost(requests, found) <= available:
                return found
    return Pace(LEAST_ROUNDS, _SLICES[-1], 2 * _SLICES[-1])


def least_cost(request: float) -> float:
    """The seconds that one contestant needs at the least, of which one request takes ``request``."""
    return _cost([request], Pace(LEAST_ROUNDS, _SLICES[-1], 2 * _SLICES[-1]))


def _cost(requests: Sequence[float], chosen: Pace) -> float:
    """A round ends with the request that runs when its time is over; so does the warm-up."""
    return sum(
        chosen.rounds * (max(request, chosen.seconds) + min(request, chosen.seconds) / 2)
        + max(request, chosen.warm_up)
        + _OVERHEAD
        for request in requests
    )


def affordable(costs: Mapping[Key, float], worth: Mapping[Key, float], seconds: float) -> set[Key]:
    """The cells that are worth most for their cost, as many as fit.

    What costs minutes for one figure gives way to many figures; a baseline is worth all the ratios that refer to it.

    Args:
        costs: the least that each cell takes, in seconds.
        worth: how many figures each cell makes possible.
        seconds: how much time there is.
    """
    chosen: set[Key] = set()
    for key in sorted(costs, key=lambda key: costs[key] / worth[key]):
        if costs[key] <= seconds:
            seconds -= costs[key]
            chosen.add(key)
    return chosen


def share(macs: Mapping[str, int], network: str) -> float:
    """The part of the remaining time that a network gets: half in equal parts, half by its arithmetic.

    Args:
        macs: the multiply-accumulates, over all batch sizes, of each network that is not yet measured.
        network: the one of them that comes next.
    """
    total = sum(macs.values())
    by_macs = macs[network] / total if total else 1 / len(macs)
    return 0.5 / len(macs) + 0.5 * by_macs


class Forecast:
    """How long requests will take, from those seen so far: first by the same cell's kind, else by arithmetic.

    ``macs`` are the multiply-accumulates of one item of each network.
    """

    def __init__(self, macs: Mapping[str, int]) -> None:
        self._macs = macs
        self._seen: dict[tuple[str, str], tuple[int, float]] = {}
        self._rates: dict[str, dict[str, float]] = {}

    def learn(self, network: str, contestant: str, batch: int, seconds: float) -> None:
        """Take in that one request of ``batch`` items took so long."""
        self._seen[network, contestant] = batch, seconds
        if self._macs[network]:
            self._rates.setdefault(contestant, {})[network] = seconds / (batch * self._macs[network])

    def has_seen(self, network: str, contestant: str) -> bool:
        """Whether a request of this network and contestant was seen, of whatever batch size."""
        return (network, contestant) in self._seen

    def seconds(self, network: str, contestant: str, batch: int) -> Optional[float]:
        """How long a request of ``batch`` items will take; None where nothing is known yet."""
        if (network, contestant) in self._seen:
            known, seconds = self._seen[network, contestant]
            return seconds * batch / known
        if contestant in self._rates:
            return median(self._rates[contestant].values()) * batch * self._macs[network]
        return None
