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
# Seconds for binding a network to a batch, collecting outputs, and synchronization.
_OVERHEAD = 0.3


@dataclass(frozen=True)
class Pace:
    """``rounds`` turns of ``seconds`` each for a group of contestants, after a warm-up of at most ``warm_up``."""

    rounds: int
    seconds: float
    warm_up: float


def pace(requests: Sequence[float], available: Optional[float]) -> Pace:
    """The most thorough pace that fits.

    Args:
        requests: the duration of one request of each contestant, in seconds.
        available: the seconds for the whole group; None if time does not matter.
    """
    if available is None:
        return Pace(ROUNDS, _SLICE, _WARM_UP)
    # More rounds sample more of the machine's fluctuations than longer ones.
    for rounds in range(ROUNDS, LEAST_ROUNDS - 1, -1):
        for seconds in _SLICES:
            candidate = Pace(rounds, seconds, 2 * seconds)
            if _cost(requests, candidate) <= available:
                return candidate
    return Pace(LEAST_ROUNDS, _SLICES[-1], 2 * _SLICES[-1])


def least_cost(request: float) -> float:
    """The least seconds for a contestant whose requests take ``request`` seconds."""
    return _cost([request], Pace(LEAST_ROUNDS, _SLICES[-1], 2 * _SLICES[-1]))


def _cost(requests: Sequence[float], chosen: Pace) -> float:
    """The expected seconds; a round or a warm-up ends with the request that runs when its time is over."""
    return sum(
        chosen.rounds * (max(request, chosen.seconds) + min(request, chosen.seconds) / 2)
        + max(request, chosen.warm_up)
        + _OVERHEAD
        for request in requests
    )


def affordable(costs: Mapping[Key, float], worth: Mapping[Key, float], seconds: float) -> set[Key]:
    """The cells with the most worth for their cost, as many as fit.

    Many figures take precedence over one that costs minutes; a baseline is worth all the ratios that refer to it.

    Args:
        costs: the least cost of each cell, in seconds.
        worth: the number of figures that each cell makes possible.
        seconds: the available time.
    """
    chosen: set[Key] = set()
    for key in sorted(costs, key=lambda key: costs[key] / worth[key]):
        if costs[key] <= seconds:
            seconds -= costs[key]
            chosen.add(key)
    return chosen


def share(macs: Mapping[str, int], network: str) -> float:
    """A network's share of the remaining time: half in equal parts, half by its arithmetic.

    Args:
        macs: the multiply-accumulates, over all batch sizes, of each network that is not yet measured.
        network: the one of them that comes next.
    """
    total = sum(macs.values())
    by_macs = macs[network] / total if total else 1 / len(macs)
    return 0.5 / len(macs) + 0.5 * by_macs


class Forecast:
    """Predicts durations of requests from earlier ones: of the same network and contestant, else by arithmetic.

    ``macs`` are the multiply-accumulates of one item of each network.
    """

    def __init__(self, macs: Mapping[str, int]) -> None:
        self._macs = macs
        self._seen: dict[tuple[str, str], tuple[int, float]] = {}
        self._rates: dict[str, dict[str, float]] = {}

    def learn(self, network: str, contestant: str, batch: int, seconds: float) -> None:
        """Record the duration of a request of ``batch`` items."""
        self._seen[network, contestant] = batch, seconds
        if self._macs[network]:
            self._rates.setdefault(contestant, {})[network] = seconds / (batch * self._macs[network])

    def has_seen(self, network: str, contestant: str) -> bool:
        """Whether a request of this network and contestant was seen, of any batch size."""
        return (network, contestant) in self._seen

    def seconds(self, network: str, contestant: str, batch: int) -> Optional[float]:
        """The predicted duration of a request of ``batch`` items; None if nothing is known yet."""
        if (network, contestant) in self._seen:
            known, seconds = self._seen[network, contestant]
            return seconds * batch / known
        if contestant in self._rates:
            return median(self._rates[contestant].values()) * batch * self._macs[network]
        return None
