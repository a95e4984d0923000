"""The page of the zoo: how many networks get how far, why the others do not, and a table of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from command_line import Document, origin, table

from quantkit.backends.registry import DEPLOYED_ONNX
from quantkit.units import counted

_COVERED = 0.97

_COLUMNS = (
    "network", "task", "input", "layers in INT8", "of MACs %", "cosine with FP32", "fusion's deviation",
    *(f"{engine}: cosine with MXNet, layers in integers" for engine in DEPLOYED_ONNX), "stopped by",
    "GiB, of at most", "s, of at most",
)  # fmt: skip

_SORTED = (
    "Detectors put out lists that are sorted by score. With random weights many scores are nearly alike, and the lists "
    "of two forms of a network have another order. Their cosine with FP32 is that of the tensors before sorting, such "
    "as class probabilities, whose softmax amplifies deviations, and none is given with MXNet; R-CNN, whose heads read "
    "regions that are selected within, has neither."
)

_SATURATED = (
    "On processors without VNNI, sums of two products saturate in 16 bits. INT8 then deviates more from FP32, and "
    "engines deviate more from each other, since they pair different products."
)

Cells = Mapping[str, Any]


def page(document: Document) -> str:
    """The page of a run's JSON."""
    rows = document["rows"]
    known = {row["network"]: row for row in rows}
    judged = [known.get(row["quantized_as"] or row["network"]) for row in rows]
    quantized = [row for row in judged if row and row["coverage"]]
    covered = sum(_share(row["coverage"]) >= _COVERED for row in quantized)
    measured = [row for row in rows if not row["quantized_as"]]
    others = [row for row in measured if troubles(row) or not row["coverage"] or _share(row["coverage"]) < _COVERED]
    missing = document.get("names", 0) - len(rows)
    saturated = any(row["host"].get("vnni") == "no" for row in measured)
    lines = [
        *([f"Not measured yet: {counted(missing, 'name')} of GluonCV's zoo.", ""] if missing > 0 else []),
        f"`{document['command']}`. Measured on",
        "",
        *(f"- {each}: {counted(count, 'network')}" for each, count in Counter(map(origin, measured)).most_common()),
        "",
        f"{len(quantized)} of {len(rows)} names quantize, {covered} of them with at least {100 * _COVERED:g} % of "
        f"the multiply-accumulates in INT8. {sum(row['reached'] == 'exported' for row in quantized)} are written as "
        f"ONNX; {' and '.join(_running(quantized))}. {len(rows) - len(measured)} of the names are GluonCV's own INT8 "
        "networks, in whose place quantkit quantizes FP32 networks; they count as these do.",
        "",
        "Networks that stop early, fail in an engine or have less in INT8, and why:",
        "",
        *table(("network", "of MACs %", "reason (of MACs %)")),
        *map(_exception, others),
        "",
        "All of them:",
        "",
        *table(_COLUMNS),
        *map(line, rows),
        "",
        _SORTED,
        "",
        *([_SATURATED, ""] if saturated else []),
        "What stays in FP32, by reason:",
        "",
        *table(("reason", "networks", "layers")),
        *_left([row for row in measured if row["coverage"]]),
    ]
    return "\n".join(lines) + "\n"


def troubles(row: Cells) -> list[str]:
    """What stopped a network, and what its engines failed at; nothing where all went well."""
    own = [row["problem"]] if row["problem"] else []
    return own + [f"{engine}: {ran['problem']}" for engine, ran in row["engines"].items() if ran["problem"]]


def line(row: Cells) -> str:
    """A network's line of the table."""
    covered = row["coverage"]
    if row["quantized_as"]:
        cells = [row["network"], row["task"], row["input"], f"as {row['quantized_as']}"]
        return f"| {' | '.join([*cells, *[''] * (len(_COLUMNS) - len(cells))])} |"
    cells = [
        row["network"],
        row["task"],
        row["input"] + (f" ({row['full_input']} needs more memory)" if row["full_input"] else ""),
        f"{covered['int8_layers']} of {covered['layers']}" if covered else "",
        f"{100 * _share(covered):.1f}" if covered else "",
        _number(row["cosine"], ".4f"),
        _number(row["fusion"], ".1e"),
        *(_ran(row["engines"].get(engine)) for engine in DEPLOYED_ONNX),
        _cell(row["problem"]),
        f"{row['peak']:.1f} of {row['bound']:g}",
        f"{row['seconds']:.0f} of {60 * row['minutes']:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _running(rows: Sequence[Cells]) -> Iterator[str]:
    for engine in DEPLOYED_ONNX:
        ran = [row["engines"][engine] for row in rows if engine in row["engines"]]
        yield f"{sum(not each['problem'] for each in ran)} run in {engine}"


def _exception(row: Cells) -> str:
    covered = row["coverage"]
    left = covered["left"] if covered else ()
    reasons = [f"{each['reason']} ({100 * each['macs'] / covered['macs']:.1f})" for each in left]
    reasons += troubles(row)
    share = f"{100 * _share(covered):.1f}" if covered else ""
    return f"| {row['network']} | {share} | {_cell('; '.join(reasons))} |"


def _ran(engine: Optional[Cells]) -> str:
    if engine is None:
        return ""
    cosine = "sorted" if engine["cosine"] is None else f"{engine['cosine']:.5f}"
    return _cell(engine["problem"]) or f"{cosine}, {engine['integers']}"


def _left(rows: Sequence[Cells]) -> Iterator[str]:
    reasons: dict[str, list[int]] = {}
    for row in rows:
        for left in row["coverage"]["left"]:
            reasons.setdefault(left["reason"], []).append(left["layers"])
    for reason, layers in sorted(reasons.items(), key=lambda item: -sum(item[1])):
        yield f"| {_cell(reason)} | {len(layers)} | {sum(layers)} |"


def _share(covered: Mapping[str, int]) -> float:
    return covered["int8_macs"] / covered["macs"] if covered["macs"] else 0.0


def _number(value: Optional[float], form: str) -> str:
    return "" if value is None else format(value, form)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
