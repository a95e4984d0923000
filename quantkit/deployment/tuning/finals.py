"""The last comparison: the best against the default, and against what engines do by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quantkit.deployment.tuning.candidates import own
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.goal import TuningGoal, nothing_keeps
from quantkit.deployment.tuning.rounds import LONG, decisive, in_turns
from quantkit.deployment.tuning.trials import Trials
from quantkit.deployment.tuning.tuned import Finalist, compared, keeps
from quantkit.errors import QuantkitError


def last_comparison(
    trials: Trials, usual: Contestant, best: Contestant, more: Callable[[], bool]
) -> tuple[Finalist, ...]:
    """The default, the best if it is another, and what engines do by themselves, as far as they run to the end.

    Args:
        trials: of the search.
        usual: the default.
        best: the best that was found.
        more: whether there is time for a further round.

    Raises:
        QuantkitError: the default cannot run.
    """
    chosen = [usual, *([best] if best.key != usual.key else []), *own(best)]
    running = [each for each in chosen if trials.of(each).points]
    trials.tell("comparing the best with the default and with the engines by themselves")
    found = in_turns({each: trials.load(each) for each in running}, LONG * trials.turn, decisive(more))
    if usual in found.problems:
        raise QuantkitError(f"{usual.name} does not run: {found.problems[usual]}")
    return tuple(Finalist(each, tuple(points), trials.of(each).memory) for each, points in found.points.items())


def winner_of(goal: TuningGoal, finalists: Sequence[Finalist]) -> Finalist:
    """The default, which is the first, unless the best is better beyond doubt, or the default breaks a bound.

    Raises:
        UserError: neither keeps the bounds.
    """
    usual, *others = finalists
    keeping = [each for each in others if each.contestant.own is None and keeps(goal, each)]
    winner = usual
    for each in keeping:
        if compared(goal, each.points, usual.points).low > 1 or not keeps(goal, usual):
            winner = each
    if not keeps(goal, winner):
        raise nothing_keeps()
    return winner
