"""The result of a search, as JSON's own types."""

from __future__ import annotations

from typing import Any

from quantkit.mixed_precision.explore import Kept
from quantkit.mixed_precision.measurements import JudgedNetwork
from quantkit.mixed_precision.search import SearchResult


def search_summary(outcome: SearchResult) -> dict[str, Any]:
    """A search as JSON's own types. Latency in ms; drops, and what they are of (``score``), as in ``Drop``."""
    candidates, measured = outcome.candidates
    made, resumed = outcome.measurements
    chosen, drop = outcome.chosen.milliseconds, outcome.chosen.drop
    return {
        "goal": {"max_drop": outcome.goal.max_drop, "min_speedup": outcome.goal.min_speedup},
        "met": outcome.met,
        "measure": drop and drop.measure,
        "images": outcome.images,
        "data": outcome.data,
        "fp32": None if drop is None else drop.reference,
        # Timed in turns with the chosen network: timings of two moments could contradict each other.
        "all_int8": {
            **_check(outcome.int8),
            "latency_ms": chosen["int8"],
            "speedup": chosen["fp32"] / chosen["int8"],
        },
        "mixed": _check(outcome.chosen),
        "adjusted_again": outcome.chosen.again,
        "layers": [_layer(kept) for kept in outcome.layers],
        "candidates": {"found": candidates, "measured": measured},
        "measurements": {"made": made, "before": resumed},
        "time_is_up": outcome.time_is_up,
    }


def _check(check: JudgedNetwork) -> dict[str, Any]:
    drop = check.drop
    return {
        "score": drop and drop.other,
        "drop": drop and drop.loss,
        "interval": drop and [drop.low, drop.high],
        "divergence": check.divergence,
        "latency_ms": check.latency,
        "extra_ms": check.extra,
        "noise_ms": check.noise,
        "speedup": check.speedup,
    }


def _layer(kept: Kept) -> dict[str, Any]:
    trial = kept.trial
    return {
        "layer": kept.layer,
        "operator": kept.operator,
        "gain": kept.share,
        "cost_ms": trial.milliseconds if trial else None,
        "noise_ms": trial.noise if trial else None,
    }
