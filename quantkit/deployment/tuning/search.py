"""The search for the fastest deployment: many are tried shortly, the best ones longer, the last against all others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Union

from quantkit.bundle.bundle import Bundle
from quantkit.deployment.deployment_file import this_host
from quantkit.deployment.network import usable_engines
from quantkit.deployment.tuning.candidates import default
from quantkit.deployment.tuning.decoding import check_images, with_decoding
from quantkit.deployment.tuning.finals import last_comparison, winner_of
from quantkit.deployment.tuning.goal import TuningGoal
from quantkit.deployment.tuning.halving import best_structure
from quantkit.deployment.tuning.settings import best_settings
from quantkit.deployment.tuning.trials import Trials
from quantkit.deployment.tuning.tuned import Tuned
from quantkit.errors import UserError
from quantkit.mixed_precision.journal import Journal, journal_path
from quantkit.progress import Tell, untold
from quantkit.units import counted
from quantkit.version import __version__

# The shares of the time after which no further structures and no further settings are tried, and after which the last
# comparison ends where image files are read after it.
_STRUCTURES, _SETTINGS, _FINALS = 0.45, 0.65, 0.85

# Seconds of one measurement, as a share of the budget, and at least and at most so many.
_SHARE, _SHORTEST, _LONGEST = 1 / 600, 0.25, 2.0

# Requests at random times of one measurement, whose p99 counts, but for so long a share of the budget at most.
_REQUESTS, _FEWEST, _LARGEST_SHARE = 200, 50, 1 / 30


def tune(
    bundles: Sequence[Bundle],
    goal: TuningGoal,
    minutes: float = 5.0,
    again: bool = False,
    tell: Tell = untold,
    images: Union[str, os.PathLike[str], None] = None,
) -> Tuned:
    """Find the fastest deployment of one of the bundles on this machine.

    What was tried is kept under QUANTKIT_HOME until ``write_tuning`` has written the result, so that a search that was
    interrupted, or whose result could not be written, goes on.

    Args:
        bundles: forms of one network, any of which may be deployed; the first is the default.
        goal: what it is to be best at.
        minutes: the time for it, about.
        again: forget what an earlier search has tried.
        tell: called with what is tried, and what came out.
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
    begun, seconds = monotonic(), 60 * minutes
    short = min(_LONGEST, max(_SHORTEST, _SHARE * seconds))
    turn = _turn(goal, short, minutes)
    if images is not None:
        check_images(Path(images), bundles)
    journal = _journal(bundles, goal, turn, again)
    if journal.resumed:
        tell(f"going on with {counted(journal.resumed, 'trial')} of an earlier search")

    def within(share: float) -> Callable[[], bool]:
        return lambda: monotonic() - begun < share * seconds

    trials = Trials(goal, turn, journal, tell)
    usual = default(bundles)
    structure = best_structure(trials, bundles, usual, within(_STRUCTURES))
    best, settings = best_settings(trials, structure, within(_SETTINGS))
    finalists = last_comparison(trials, usual, best, within(1.0 if images is None else _FINALS))
    tuned = Tuned(goal, winner_of(goal, finalists), finalists, trials.all, settings, journal=journal.path)
    return tuned if images is None else with_decoding(tuned, Path(images), short, within(1.0), tell)


def _check_alike(bundles: Sequence[Bundle]) -> None:
    """Check that bundles are forms of one network."""
    first, *others = (each.manifest for each in bundles)
    for bundle, other in zip(bundles[1:], others):
        if (other.input, other.source.sha256) != (first.input, first.source.sha256):
            raise UserError(
                f"{bundle.directory} is of another network than {bundles[0].directory}: its input or its weights "
                "differ; tune each network by itself"
            )


def _turn(goal: TuningGoal, short: float, minutes: float) -> float:
    """The seconds of one measurement, at least ``short``.

    Raises:
        UserError: too few requests come at the goal's rate in so much of the time to tell their p99.
    """
    if goal.rate is None:
        return short
    turn = max(short, min(_REQUESTS / goal.rate, _LARGEST_SHARE * 60 * minutes))
    if turn * goal.rate < _FEWEST:
        least = _FEWEST / goal.rate / _LARGEST_SHARE / 60
        raise UserError(
            f"at {goal.rate:g} images/s too few come in {minutes:g} minutes to tell their p99; allow at least "
            f"{least:.3g} minutes"
        )
    return turn


def _journal(bundles: Sequence[Bundle], goal: TuningGoal, turn: float, again: bool) -> Journal:
    """What an earlier search has tried on this host, with these versions, bundles, goal and budget."""
    versions = {each.sha256: usable_engines(each) for each in bundles}
    facts = {"tuning": dict(goal.facts), "turn": turn, "host": asdict(this_host()), "bundles": versions}
    path = journal_path({**facts, "quantkit": __version__})
    if again:
        path.unlink(missing_ok=True)
    return Journal(path)
