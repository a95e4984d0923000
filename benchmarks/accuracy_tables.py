"""Rows of an accuracy run as figures and comparisons, and these as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

from accuracy_rows import BEST_FORM
from command_line import described

from quantkit.benchmark.accuracy.rows import DEFAULT_FORM, Row, own_figures, rank

Entry = Mapping[str, Any]
"""A row as JSON has it."""


def line(row: Row) -> str:
    """One row of the full table, without its comparisons."""
    return "| " + " | ".join(_cells(own_figures(row))) + " |"


def markdown(found: Mapping[str, Any]) -> str:
    """The page of a run's JSON: what was run, the presets beside the peers, and the table of all rows."""
    rows = found["rows"]
    lines = [described(found), ""]
    if any(row["peer"] for row in rows):
        lines += [*_summary(rows), "", *_files(rows), ""]
    lines += [
        "All rows. Seconds are those of the algorithms, or of a peer's quantization. In brackets 95 % intervals over "
        "images; verdicts are McNemar's exact test at 5 %.",
        "",
        "| network | form | calibration images | test images | top-1 % | top-5 % | agreement with FP32 % | cosine "
        "| seconds | top-1 less FP32's | agreement of the default preset less this |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [*_cells(row), _text(row["accuracy_less_fp32"]), _text(row["default_agreement_less_this"])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _summary(rows: Sequence[Entry]) -> Iterator[str]:
    yield (
        "The default preset and `best` beside each peer's mode that agrees most often with FP32 on the test images, a "
        "choice in the peers' favour: agreement with FP32 in %, cosine. The difference is the default preset's "
        "agreement less the peer's in points, with its 95 % interval over images; the verdict is McNemar's exact test "
        "at 5 %. The last verdict is by the cosine: whether the 95 % interval of the mean difference over images "
        "leaves 0 out."
    )
    yield ""
    yield (
        "| network | calibration images | default | best | peer | its best mode | agreement, cosine | difference "
        "| verdict | by cosine |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for row in best_modes(rows):
        found, cosine = row["default_agreement_less_this"], row["default_cosine_less_this"]
        own = [agreement(form_of(rows, row, form)) for form in (DEFAULT_FORM, BEST_FORM)]
        verdicts = ["" if each is None else each["verdict"] for each in (found, cosine)]
        cells = [row["network"], str(row["calibration_samples"]), *own, row["peer"], row["form"], agreement(row)]
        yield "| " + " | ".join([*cells, difference(found), *verdicts]) + " |"


def _files(rows: Sequence[Entry]) -> Iterator[str]:
    yield (
        "quantkit's network as an ONNX file in each peer's own engine, beside what the peer made of the FP32 file: "
        "the mode that agrees most often. Figures and verdicts as above."
    )
    yield ""
    yield (
        "| network | calibration images | form | agreement, cosine | the peer's best mode | agreement, cosine "
        "| difference | verdict | by cosine |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for row, other in files_beside_peers(rows):
        found, cosine = row["agreement_less_best_mode"], row["cosine_less_best_mode"]
        cells = [
            *(row["network"], str(row["calibration_samples"]), row["form"], agreement(row)),
            *(other["form"], agreement(other)),
        ]
        yield "| " + " | ".join([*cells, difference(found), found["verdict"], cosine["verdict"]]) + " |"


def files_beside_peers(rows: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Quantkit's files in the peers' engines, each with the peer's best mode."""
    best = {(row["network"], row["calibration_samples"], row["peer"]): row for row in best_modes(rows)}
    for row in rows:
        other = best.get((row["network"], row["calibration_samples"], row.get("engine")))
        if other is not None and not row["failure"]:
            yield row, other


def best_modes(rows: Sequence[Entry]) -> Iterator[Entry]:
    """Of each peer's modes the one that agrees most often with FP32, by network and calibration images."""
    groups: dict[tuple[str, Optional[int], str], list[Entry]] = {}
    for row in rows:
        if row["peer"] is not None and not row["failure"]:
            groups.setdefault((row["network"], row["calibration_samples"], row["peer"]), []).append(row)
    for group in groups.values():
        yield max(group, key=rank)


def form_of(rows: Iterable[Entry], like: Entry, form: str) -> Optional[Entry]:
    """The row of another form of the same network with as many calibration images."""
    wanted = (like["network"], like["calibration_samples"], form)
    return next((row for row in rows if (row["network"], row["calibration_samples"], row["form"]) == wanted), None)


def agreement(row: Optional[Entry]) -> str:
    """Agreement with FP32 in %, and cosine; empty where there is no row, or it failed."""
    return "" if row is None or row["failure"] else f"{row['agreement']:.2f}, {row['cosine']:.5f}"


def difference(found: Optional[Mapping[str, Any]]) -> str:
    """A difference of shares in points with its interval."""
    if found is None:
        return ""
    return f"{100 * found['difference']:+.2f} [{100 * found['low']:+.2f}, {100 * found['high']:+.2f}]"


def _text(found: Optional[Mapping[str, Any]]) -> str:
    return "" if found is None else f"{difference(found)} {found['verdict']}"


def _cells(row: Entry) -> list[str]:
    samples = "" if row["calibration_samples"] is None else str(row["calibration_samples"])
    seconds = "" if row["seconds"] is None else f"{row['seconds']:.1f}"
    if row["failure"]:
        failed = f"failed: {row['failure'].replace('|', '/')}"
        return [row["network"], row["form"], samples, failed, "", "", "", "", ""]
    shares = [f"{row[name]:.2f}" for name in ("top1", "top5", "agreement")]
    return [row["network"], row["form"], samples, str(row["images"]), *shares, f"{row['cosine']:.5f}", seconds]
