"""The search for the fastest deployment: many are tried shortly, the best ones longer, the last against all others.

Successive halving (Jamieson and Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
2016) over engines and placements; then one setting of the best after the other is changed. Each is compared with
measurements of the same moments, so that fluctuations of the machine affect both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from math import ceil
from pathlib import Path
from statistics import median
from typing import Any, Optional, Union

from quantkit.bundle.bundle import Bundle
from quantkit.deployment.deployment_file import this_host
from quantkit.deployment.network import usable_engines
from quantkit.deployment.tuning.candidates import default, loads, own, structures, variants
from quantkit.deployment.tuning.contestant import Contestant, Restarting, Running
from quantkit.deployment.tuning.decoding import check_images, decoded
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.point import Load, Point
from quantkit.deployment.tuning.rounds import in_turns
from quantkit.deployment.tuning.tuned import Finalist, Setting, Trial, Tuned, compared, keeps
from quantkit.errors import InstanceError, QuantkitError, UserError
from quantkit.mixed_precision.journal import Journal, journal_path
from quantkit.progress import Tell, untold
from quantkit.units import counted
from quantkit.version import __version__

# The shares of the time after which no further structures and no further settings are tried, and after which the last
# comparison ends where image files are read after it.
_STRUCTURES, _SETTINGS, _FINALS = 0.45, 0.65, 0.85

# Of the structures so many go on, one of three at least.
_GO_ON, _ONE_OF = 3, 3

# Rounds of a comparison on the way; of the last one, at least and at most, with turns this many times as long.
_ROUNDS = 4
_LEAST_ROUNDS, _MOST_ROUNDS = 4, 30
_LAST = 2.0

# A load goes on to the comparisons if it had this share of the bound on p99, since readings differ.
_HEADROOM = 0.85

# Seconds of one measurement, as a share of the budget, and at least and at most so many.
_SHARE, _SHORTEST, _LONGEST = 1 / 600, 0.25, 2.0

# Requests at random times of one measurement, whose p99 counts, but for so long a share of the budget at most.
_REQUESTS, _FEWEST, _LARGEST_SHARE = 200, 50, 1 / 30

Clock = Callable[[], float]


def tune(
    bundles: Sequence[Bundle],
    goal: TuningGoal,
    minutes: float = 5.0,
    again: bool = False,
    tell: Tell = untold,
    clock: Clock = time.monotonic,
    images: Union[str, os.PathLike[str], None] = None,
) -> Tuned:
    """Find the fastest deployment of one of the bundles on this machine.

    What was tried is kept under QUANTKIT_HOME until this ends, so that an interrupted search goes on.

    Args:
        bundles: forms of one network, any of which may be deployed; the first is the default.
        goal: what it is to be best at.
        minutes: the time for it, about.
        again: forget what an interrupted search has tried.
        tell: called with what is tried, and what came out.
        clock: the time in seconds.
        images: typical image files, a folder or one, to find how many threads decode them fastest beside the winner;
            None: that is not measured.

    Raises:
        UserError: the bundles are not of one network, nothing keeps the bounds of the goal, the time is too short for
            its rate, or a bundle does not say how image files become its network's input.
        DataError: there are no images.
        EngineMissing: no engine for the first bundle is installed.
        ExtraMissing: SciPy is not installed.
        QuantkitError: the default cannot run, or what was tried cannot be kept.
    """
    _check_alike(bundles)
    begun, seconds = clock(), 60 * minutes
    turn = short = min(_LONGEST, max(_SHORTEST, _SHARE * seconds))
    if goal.rate is not None:
        turn = max(turn, min(_REQUESTS / goal.rate, _LARGEST_SHARE * seconds))
        if turn * goal.rate < _FEWEST:
            least = _FEWEST / goal.rate / _LARGEST_SHARE / 60
            raise UserError(
                f"at {goal.rate:g} images/s too few come in {minutes:g} minutes to tell their p99; allow at least "
                f"{least:.3g} minutes"
            )
    if images is not None:
        check_images(Path(images), bundles)
    journal = _journal(bundles, goal, turn, again)
    if journal.resumed:
        tell(f"going on with {counted(journal.resumed, 'trial')} of an interrupted search")
    search = _Search(goal, turn, journal, tell)

    def left(share: float) -> bool:
        return clock() - begun < share * seconds

    usual = default(bundles)
    with Restarting(usual) as running:
        search.begin(running)
        search.structures(bundles, running, lambda: left(_STRUCTURES))
    search.halve()
    search.change_settings(lambda: left(_SETTINGS))
    tuned = search.result(search.finals(usual, lambda: left(1.0 if images is None else _FINALS)))
    if images is not None:
        tuned = search.with_decoding(tuned, Path(images), _LAST * short, lambda: left(1.0))
    journal.path.unlink(missing_ok=True)
    return tuned


def _check_alike(bundles: Sequence[Bundle]) -> None:
    """Check that bundles are forms of one network."""
    first, *others = (each.manifest for each in bundles)
    for bundle, other in zip(bundles[1:], others):
        if (other.input, other.source.sha256) != (first.input, first.source.sha256):
            raise UserError(
                f"{bundle.directory} is of another network than {bundles[0].directory}: its input or its weights "
                "differ; tune each network by itself"
            )


def _journal(bundles: Sequence[Bundle], goal: TuningGoal, turn: float, again: bool) -> Journal:
    """What an interrupted search has tried on this host, with these versions, bundles, goal and budget."""
    versions = {each.sha256: usable_engines(each) for each in bundles}
    facts = {"tuning": dict(goal.facts), "turn": turn, "host": asdict(this_host()), "bundles": versions}
    path = journal_path({**facts, "quantkit": __version__})
    if again:
        path.unlink(missing_ok=True)
    return Journal(path)


def _decisive(more: Callable[[], bool]) -> Callable[[int], bool]:
    """Whether a comparison that decides has a further round after so many."""
    return lambda done: done < _LEAST_ROUNDS or (done < _MOST_ROUNDS and more())


def _nothing_keeps() -> UserError:
    return UserError(
        "nothing that was tried keeps the bounds of the goal; allow a larger p99 or more memory, or a longer --budget"
    )


class _Search:
    """The state of a search: what was tried, and the best so far."""

    def __init__(self, goal: TuningGoal, turn: float, journal: Journal, tell: Tell) -> None:
        self._goal, self._turn, self._journal, self._tell = goal, turn, journal, tell
        self._trials: list[Trial] = []
        self._settings: list[Setting] = []
        # Scores over those of the default at the same time.
        self._ranks: dict[Contestant, float] = {}

    def begin(self, usual: Restarting) -> None:
        """Measure the default, with which everything is compared."""
        points, memory = self._explored(usual), usual.memory()
        self._trials.append(Trial(usual.contestant, points, memory, self._excess(memory)))
        if self._best(self._trials[0]) is not None:
            self._ranks[usual.contestant] = 1.0
        self._tell(self._line(self._trials[0]))

    def structures(self, bundles: Sequence[Bundle], usual: Restarting, more: Callable[[], bool]) -> None:
        """Try every engine and placement, each followed by a measurement of the default."""
        for contestant in structures(bundles, self._goal):
            if contestant.key == usual.contestant.key:
                continue
            if not more():
                self._tell("the time for engines and placements is over; the others are not tried")
                return
            trial, beside = self._tried(contestant, usual)
            best = self._best(trial)
            if best is not None:
                self._ranks[contestant] = self._goal.speed(best) / beside

    def halve(self) -> None:
        """Compare the best ones again, side by side and longer, and keep the order."""
        if not self._ranks:
            raise _nothing_keeps()
        number = max(2, min(_GO_ON, ceil(len(self._ranks) / _ONE_OF)))
        leading = sorted(self._ranks, key=self._ranks.__getitem__, reverse=True)[:number]
        found = self._side_by_side(leading)
        if not found:
            raise QuantkitError("none of the best runs a second time; see whether memory is short, and tune again")
        self._ranks = {each: sum(self._goal.speed(point) for point in points) for each, points in found.items()}

    def change_settings(self, more: Callable[[], bool]) -> None:
        """Change one setting of the best after the other; what is better beyond doubt is kept."""
        best = self._leader()
        tried: set[str] = {best.key}
        changed = True
        while changed and more():
            changed = False
            for name, variant in variants(best, self._goal):
                if variant.key in tried or not more():
                    continue
                tried.add(variant.key)
                trial, _ = self._tried(variant)
                points = {} if self._best(trial) is None else self._side_by_side([best, variant])
                if len(points) < 2:
                    continue
                ratio = compared(self._goal, points[variant], points[best])
                changed = ratio.low > 1 and self._in_time(points[variant])
                self._settings.append(Setting(name, ratio, changed))
                self._tell(f"  {name}: {ratio.value:.3f} times ({ratio.low:.3f} to {ratio.high:.3f})")
                if changed:
                    best = variant
                    break
        self._ranks = {best: 1.0}

    def finals(self, usual: Contestant, more: Callable[[], bool]) -> tuple[Finalist, ...]:
        """The default, the best, and what engines do by themselves.

        Raises:
            QuantkitError: the default cannot run.
        """
        best = self._leader()
        chosen = [usual, *([best] if best.key != usual.key else []), *own(best)]
        for contestant in chosen:
            if all(trial.contestant.key != contestant.key for trial in self._trials):
                self._tried(contestant)
        self._tell("comparing the best with the default and with the engines by themselves")
        loads = {each: self._load(each) for each in chosen if self._trial(each).points}
        found = in_turns(loads, _LAST * self._turn, _decisive(more))
        if usual in found.problems:
            raise QuantkitError(f"{usual.name} does not run: {found.problems[usual]}")
        return tuple(Finalist(each, tuple(points), self._trial(each).memory) for each, points in found.points.items())

    def result(self, finalists: tuple[Finalist, ...]) -> Tuned:
        """The winner: the default, unless the best is better beyond doubt, or the default breaks a bound.

        Raises:
            UserError: neither keeps the bounds.
        """
        usual, *others = finalists
        keeping = [each for each in others if each.contestant.own is None and keeps(self._goal, each)]
        winner = usual
        for each in keeping:
            if compared(self._goal, each.points, usual.points).low > 1 or not keeps(self._goal, usual):
                winner = each
        if not keeps(self._goal, winner):
            raise _nothing_keeps()
        return Tuned(self._goal, winner, finalists, tuple(self._trials), tuple(self._settings))

    def with_decoding(self, tuned: Tuned, images: Path, seconds: float, more: Callable[[], bool]) -> Tuned:
        """The result, with how many threads decode image files fastest while it runs."""
        self._tell("comparing numbers of threads that decode images")
        try:
            return replace(tuned, decoded=decoded(tuned.winner.contestant, images, seconds, _decisive(more)))
        except QuantkitError as error:
            self._tell(f"the threads that decode could not be compared: {error}")
            return replace(tuned, undecoded=str(error))

    def _in_time(self, points: Sequence[Point]) -> bool:
        return self._goal.p99 is None or median(point.p99 for point in points) <= self._goal.p99

    def _excess(self, memory: int) -> str:
        return "" if self._goal.allows(memory) else "it takes more memory than the goal allows"

    def _leader(self) -> Contestant:
        return max(self._ranks, key=self._ranks.__getitem__)

    def _tried(self, contestant: Contestant, usual: Optional[Restarting] = None) -> tuple[Trial, float]:
        """What is measured of a contestant, or was before this was interrupted; and of the default right after it."""
        try:
            known = self._journal.recall([contestant.key], lambda: self._measured(contestant, usual))
        except InstanceError as error:
            # A process that was killed or hung may run another time.
            known = {"points": [], "memory": 0, "problem": str(error), "beside": 1.0}
        points = tuple(Point(**{**each, "load": Load(**each["load"])}) for each in known["points"])
        problem = known["problem"] or self._excess(known["memory"])
        trial = Trial(contestant, points, known["memory"], problem)
        self._trials.append(trial)
        self._tell(self._line(trial))
        return trial, known["beside"]

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
                beside = self._goal.speed(usual.measure(self._load(usual.contestant), self._turn))
            except InstanceError as error:
                raise QuantkitError(f"the default, {usual.contestant.name}, does not run any more: {error}") from error
        return {"points": [asdict(each) for each in points], "memory": memory, "problem": problem, "beside": beside}

    def _explored(self, running: Union[Running, Restarting]) -> tuple[Point, ...]:
        """Measurements under all loads that can be the best."""
        points: list[Point] = []
        for group in loads(running.contestant, self._goal, running.parallel):
            found = [running.measure(load, self._turn) for load in group]
            points += found
            # Under heavier loads, all wait longer.
            if not any(map(self._goal.score, found)):
                break
        return tuple(points)

    def _best(self, trial: Trial) -> Optional[Point]:
        return None if trial.problem else self._goal.best(trial.points)

    def _trial(self, contestant: Contestant) -> Trial:
        return next(trial for trial in self._trials if trial.contestant.key == contestant.key)

    def _load(self, contestant: Contestant) -> Load:
        """Its best load so far; the lightest where it never kept the bound."""
        trial = self._trial(contestant)
        calm = [point for point in trial.points if self._goal.p99 is None or point.p99 <= _HEADROOM * self._goal.p99]
        best = self._goal.best(calm) or self._best(trial)
        return trial.points[0].load if best is None else best.load

    def _side_by_side(self, contestants: Sequence[Contestant]) -> Mapping[Contestant, list[Point]]:
        """Measurements of the same rounds, of those that run."""
        loads = {each: self._load(each) for each in contestants}
        return in_turns(loads, self._turn, lambda done: done < _ROUNDS).points

    def _line(self, trial: Trial) -> str:
        best = self._best(trial)
        if best is None:
            return f"{trial.contestant.name}: {trial.problem or 'beyond the bound'}"
        return f"{trial.contestant.name}: {self._goal.told(best)}, {best.load}"
