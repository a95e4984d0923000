"""The outcome of tuning as a deployment, and as JSON."""

from __future__ import annotations

from typing import Any

from quantkit.backends.registry import DEPLOYED
from quantkit.benchmark.results.statistics import Ratio
from quantkit.deployment.deployment_file import LONGEST, Deployment, TunedBundle, TunedHost
from quantkit.deployment.tuning.point import Point
from quantkit.deployment.tuning.tuned import Finalist, Trial, Tuned

MEGABYTE = 10**6


def deployment_of(tuned: Tuned, host: TunedHost) -> Deployment:
    """The winner as a deployment on the host that it was measured on.

    Raises:
        EngineMissing: its engine is not installed any more.
    """
    winner, bundle = tuned.winner.contestant, tuned.winner.contestant.bundle
    files = {f"files_per_second_{each.workers}_workers": round(each.rate, 3) for each in tuned.decoded}
    over = {other.contestant.name: _three(tuned.over(other)) for other in tuned.finalists if other is not tuned.winner}
    return Deployment(
        TunedBundle(bundle.manifest.name[:LONGEST], bundle.manifest.kind, bundle.sha256),
        host,
        winner.engine,
        DEPLOYED[winner.engine].installed_version(),
        winner.spread,
        tuned.workers,
        tuned.goal.facts,
        {**_figures(tuned.winner), "load": str(tuned.winner.points[0].load), **files, **over},
    )


def tuning_document(tuned: Tuned, host: TunedHost, command: str) -> dict[str, Any]:
    """Everything that was measured, as JSON's own types."""
    return {
        "format": "quantkit-tuning",
        "version": 1,
        "command": command,
        "host": {"id": host.id, "cpu": host.cpu, "usable_cores": host.usable_cores, "cpu_quota": host.cpu_quota},
        "goal": tuned.goal.facts,
        "winner": tuned.winner.contestant.name,
        "finalists": [
            {"name": each.contestant.name, **_figures(each), "winner_over": _three(tuned.over(each)),
             "rounds": [_point(point) for point in each.points]}
            for each in tuned.finalists
        ],
        "settings": [{"name": each.name, "ratio": _three(each.ratio), "kept": each.kept} for each in tuned.settings],
        "workers": tuned.workers,
        "decoding": [
            {"workers": each.workers, "rounds": [_point(point) for point in each.points]} for each in tuned.decoded
        ],
        "decoding_problem": tuned.undecoded,
        "trials": [_trial(each) for each in tuned.trials],
    }  # fmt: skip


def _figures(finalist: Finalist) -> dict[str, Any]:
    return {
        "images_per_second": round(finalist.rate, 3),
        "p50_ms": round(finalist.p50, 4),
        "p99_ms": round(finalist.p99, 4),
        "memory_mb": round(finalist.memory / MEGABYTE),
        "rounds": len(finalist.points),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "name": trial.contestant.name,
        "memory_mb": round(trial.memory / MEGABYTE),
        "problem": trial.problem,
        "points": [_point(point) for point in trial.points],
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "batch": point.load.batch,
        "callers": point.load.callers,
        "rate_per_s": point.load.rate,
        "images_per_second": point.rate,
        "p50_ms": point.p50,
        "p99_ms": point.p99,
        "requests": point.requests,
    }


def _three(ratio: Ratio) -> list[float]:
    return [round(value, 4) for value in (ratio.value, ratio.low, ratio.high)]
