"""What changing one setting of the best deployment after the other brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from quantkit.deployment.tuning.candidates import variants
from quantkit.deployment.tuning.contestant import Contestant
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import Point
from quantkit.deployment.tuning.trials import Trials
from quantkit.deployment.tuning.tuned import Setting, compared


def best_settings(trials: Trials, best: Contestant, more: Callable[[], bool]) -> tuple[Contestant, tuple[Setting, ...]]:
    """The best with its best settings, and what each brought; what is better beyond doubt is kept.

    Args:
        trials: of the search.
        best: the best engine and placement.
        more: whether there is time to try a further setting.
    """
    settings: list[Setting] = []
    tried = {best.key}
    changed = True
    while changed and more():
        changed = False
        for name, variant in variants(best, trials.goal):
            if variant.key in tried or not more():
                continue
            tried.add(variant.key)
            trial, _ = trials.measure(variant)
            points = {} if trials.best(trial) is None else trials.side_by_side([best, variant])
            if len(points) < 2:
                continue
            ratio = compared(trials.goal, points[variant], points[best])
            changed = ratio.low > 1 and _in_time(trials.goal, points[variant])
            settings.append(Setting(name, ratio, changed))
            trials.tell(f"  {name}: {ratio.value:.3f} times ({ratio.low:.3f} to {ratio.high:.3f})")
            if changed:
                best = variant
                break
    return best, tuple(settings)


def _in_time(goal: TuningGoal, points: Sequence[Point]) -> bool:
    return goal.p99 is None or median(point.p99 for point in points) <= goal.p99
