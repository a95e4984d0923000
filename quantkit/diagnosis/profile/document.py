"""A profile as JSON values."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from quantkit.diagnosis.profile.profile import Profile, Row
from quantkit.ir.graph import Graph


def profile_document(profile: Profile, graph: Graph) -> dict[str, Any]:
    """A profile as JSON values: times in ms, speeds in GMAC/s, shares from 0 to 1."""
    times = profile.times
    return {
        "batch": profile.batch,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "latency_ms": profile.latency,
        "profiled_ms": times.total,
        "macs": profile.macs,
        "gmacs_per_s": profile.gmacs,
        "of_peak": profile.of_peak,
        "peak_gmacs_per_s": asdict(profile.peak),
        "spent_ms": asdict(profile.spent),
        "int8_share": profile.spent.int8 / times.total,
        "int8_isa": list(profile.isa),
        "layers": [_layer(row, graph) for row in profile.rows] if times.nodes else [],
        "operators": [
            {"operator": name, "count": count, "ms": spent} for name, (count, spent) in profile.operators.items()
        ],
        "others_ms": dict(times.others),
        "between_ms": times.between,
        "skipped": list(profile.skipped),
        "doubt": times.doubt,
    }


def _layer(row: Row, graph: Graph) -> dict[str, Any]:
    return {
        "layer": row.layer.name,
        "operator": row.layer.operator,
        "stands_for": list(row.layer.originals),
        "nodes": [{"name": name, "operator": graph.by_name[name].op} for name in row.nodes],
        "ms": row.milliseconds,
        "macs": row.macs,
        "gmacs_per_s": row.gmacs,
        "of_peak": row.of_peak,
        "int8": row.int8,
        "kernels": [asdict(kernel) for kernel in row.kernels],
    }
