"""Contestants measured one by one, each under all loads that can be the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Optional, Union

from quantkit.deployment.tuning.candidates import loads
from quantkit.deployment.tuning.contestant import Contestant, Restarting, Running
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import Load, Point
from quantkit.deployment.tuning.rounds import few, in_turns
from quantkit.deployment.tuning.tuned import Trial
from quantkit.errors import InstanceError, QuantkitError
from quantkit.mixed_precision.journal import Journal
from quantkit.progress import Tell

# A load goes on to the comparisons if it had this share of the bound on p99, since readings differ.
_HEADROOM = 0.85


class Trials:
    """What a search has tried.

    Attributes:
        goal: what is asked for.
        turn: the seconds of one measurement.
        tell: called with what came out.
    """

    def __init__(self, goal: TuningGoal, turn: float, journal: Journal, tell: Tell) -> None:
        """Begin with none; what is measured is recalled from the journal, and kept there."""
        self.goal, self.turn, self.tell = goal, turn, tell
        self._journal = journal
        self._made: dict[str, Trial] = {}

    @property
    def all(self) -> tuple[Trial, ...]:
        """All that were made, in their order."""
        return tuple(self._made.values())

    def begin(self, usual: Restarting) -> Trial:
        """Measure the default, with which everything is compared."""
        points, memory = self._explored(usual), usual.memory()
        return self._noted(Trial(usual.contestant, points, memory, self._excess(memory)))

    def of(self, contestant: Contestant) -> Trial:
        """That of a contestant, which is made if there is none yet."""
        known = self._made.get(contestant.key)
        return self.measure(contestant)[0] if known is None else known

    def measure(self, contestant: Contestant, usual: Optional[Restarting] = None) -> tuple[Trial, float]:
        """Measure a contestant, and right after it the default, if that is given.

        Returns:
            What came out, now or before the search was interrupted, and the speed of the default; 1 if it is not given.

        Raises:
            QuantkitError: the default does not run any more, or what was measured cannot be kept.
        """
        try:
            known = self._journal.recall([contestant.key], lambda: self._measured(contestant, usual))
        except InstanceError as error:
            # A process that was killed or hung may run another time.
            known = {"points": [], "memory": 0, "problem": str(error), "beside": 1.0}
        points = tuple(Point(**{**each, "load": Load(**each["load"])}) for each in known["points"])
        problem = known["problem"] or self._excess(known["memory"])
        return self._noted(Trial(contestant, points, known["memory"], problem)), known["beside"]

    def best(self, trial: Trial) -> Optional[Point]:
        """The best measurement of a trial; None where it keeps no bound, or could not run."""
        return None if trial.problem else self.goal.best(trial.points)

    def load(self, contestant: Contestant) -> Load:
        """The best load of a contestant that ran; the lightest where it never kept the bound."""
        trial = self.of(contestant)
        calm = [point for point in trial.points if self.goal.p99 is None or point.p99 <= _HEADROOM * self.goal.p99]
        best = self.goal.best(calm) or self.best(trial)
        return trial.points[0].load if best is None else best.load

    def side_by_side(self, contestants: Sequence[Contestant]) -> Mapping[Contestant, list[Point]]:
        """Measurements of the same few rounds, of those that run."""
        return in_turns({each: self.load(each) for each in contestants}, self.turn, few).points

    def _noted(self, trial: Trial) -> Trial:
        self._made[trial.contestant.key] = trial
        best = self.best(trial)
        said = trial.problem or "beyond the bound" if best is None else f"{self.goal.told(best)}, {best.load}"
        self.tell(f"{trial.contestant.name}: {said}")
        return trial

    def _excess(self, memory: int) -> str:
        return "" if self.goal.allows(memory) else "it takes more memory than the goal allows"

    def _measured(self, contestant: Contestant, usual: Optional[Restarting]) -> dict[str, Any]:
        points: tuple[Point, ...] = ()
        memory, problem = 0, ""
        try:
            with Running(contestant) as running:
                points, memory = self._explored(running), running.memory()
        except InstanceError:
            raise
        except QuantkitError as error:
            problem = str(error)
        beside = 1.0
        if usual is not None:
            try:
                beside = self.goal.speed(usual.measure(self.load(usual.contestant), self.turn))
            except InstanceError as error:
                raise QuantkitError(f"the default, {usual.contestant.name}, does not run any more: {error}") from error
        return {"points": [asdict(each) for each in points], "memory": memory, "problem": problem, "beside": beside}

    def _explored(self, running: Union[Running, Restarting]) -> tuple[Point, ...]:
        """Measurements under all loads that can be the best."""
        points: list[Point] = []
        for group in loads(running.contestant, self.goal, running.parallel):
            found = [running.measure(load, self.turn) for load in group]
            points += found
            # Under heavier loads, all wait longer.
            if not any(map(self.goal.score, found)):
                break
        return tuple(points)
