"""The best engine and placement: all are tried shortly, and the best ones longer.

Successive halving (Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
2016). Each is compared with measurements of the same moments, so that fluctuations of the machine affect both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from quantkit.bundle.bundle import Bundle
from quantkit.deployment.tuning.candidates import structures
from quantkit.deployment.tuning.contestant import Contestant, Restarting
from quantkit.deployment.tuning.goal import nothing_keeps
from quantkit.deployment.tuning.trials import Trials
from quantkit.errors import QuantkitError

# So many go on, one of three at least.
_GO_ON, _ONE_OF = 3, 3


def best_structure(
    trials: Trials, bundles: Sequence[Bundle], usual: Contestant, more: Callable[[], bool]
) -> Contestant:
    """The best engine and placement of the bundles.

    Args:
        trials: of the search; none was made yet.
        bundles: forms of one network.
        usual: the default.
        more: whether there is time to try a further one.

    Raises:
        UserError: nothing keeps the bounds of the goal.
        QuantkitError: the default cannot run, or none of the best runs a second time.
    """
    with Restarting(usual) as running:
        ranks = _ranked(trials, bundles, running, more)
    if not ranks:
        raise nothing_keeps()
    return _best_again(trials, ranks)


def _ranked(
    trials: Trials, bundles: Sequence[Bundle], usual: Restarting, more: Callable[[], bool]
) -> Mapping[Contestant, float]:
    """The speed of each that keeps the bounds, over that of the default right after it."""
    begun = trials.begin(usual)
    ranks = {} if trials.best(begun) is None else {usual.contestant: 1.0}
    for contestant in structures(bundles, trials.goal):
        if contestant.key == usual.contestant.key:
            continue
        if not more():
            trials.tell("the time for engines and placements is over; the others are not tried")
            break
        trial, beside = trials.measure(contestant, usual)
        best = trials.best(trial)
        if best is not None:
            ranks[contestant] = trials.goal.speed(best) / beside
    return ranks


def _best_again(trials: Trials, ranks: Mapping[Contestant, float]) -> Contestant:
    """The best of the best ones, which are compared again, side by side and longer."""
    number = max(2, min(_GO_ON, ceil(len(ranks) / _ONE_OF)))
    found = trials.side_by_side(sorted(ranks, key=ranks.__getitem__, reverse=True)[:number])
    if not found:
        raise QuantkitError("none of the best runs a second time; see whether memory is short, and tune again")
    speeds = {each: sum(trials.goal.speed(point) for point in points) for each, points in found.items()}
    return max(speeds, key=speeds.__getitem__)
