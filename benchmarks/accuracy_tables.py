"""Rows of an accuracy run as figures, comparisons and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Optional, Union

from accuracy_rows import BEST_FORM, DEFAULT_FORM, UNFUSED, Row

from quantkit.evaluation.paired import Paired, PairedMeans, paired, paired_means


def document(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows' figures as JSON's own types: shares in percent, paired comparisons as differences of shares."""
    return [
        {
            "network": row.network,
            "form": row.form,
            "calibration_samples": row.calibration_samples,
            "peer": row.peer,
            "engine": row.engine,
            "seconds": row.seconds,
            "failure": row.failure,
            **_figures(row),
            "accuracy_less_fp32": _pair(paired_accuracy(rows, row)),
            "default_agreement_less_this": _pair(paired_agreement(rows, row)),
            "default_cosine_less_this": _pair(paired_cosine(rows, row)),
        }
        for row in rows
    ]


def paired_accuracy(rows: Sequence[Row], row: Row) -> Optional[Paired]:
    """The row's accuracy beside that of FP32 on the same network; None for FP32 itself and for failures."""
    fp32 = next(each for each in rows if each.network == row.network and each.form == UNFUSED)
    if row is fp32 or row.images is None or fp32.images is None:
        return None
    return paired(row.images.top1, fp32.images.top1)


def paired_agreement(rows: Sequence[Row], row: Row) -> Optional[Paired]:
    """The default preset's agreement with FP32 beside the row's, both calibrated alike; None where there is none."""
    default = _form(rows, row, DEFAULT_FORM)
    if default is None or default is row or default.images is None or row.images is None:
        return None
    return paired(default.images.same, row.images.same)


def paired_cosine(rows: Sequence[Row], row: Row) -> Optional[PairedMeans]:
    """The default preset's cosine with FP32 beside the row's, both calibrated alike; None where there is none."""
    default = _form(rows, row, DEFAULT_FORM)
    if default is None or default is row or default.images is None or row.images is None:
        return None
    return paired_means(default.images.cosine, row.images.cosine)


def line(row: Row) -> str:
    """One row of the full table, without its comparisons."""
    return "| " + " | ".join(_cells(row)) + " |"


def markdown(rows: Sequence[Row], command: str, host: dict[str, str]) -> str:
    """The page: what was run, the default and best presets beside the peers, and the table of all rows."""
    lines = [f"`{command}`, " + ", ".join(f"{key} {value}" for key, value in host.items()), ""]
    if any(row.peer for row in rows):
        lines += [*_summary(rows), "", *_files(rows), ""]
    lines += [
        "All rows. Seconds are those of recovery, or of a peer's quantization. In brackets 95 % intervals over images; "
        "verdicts are McNemar's exact test at 5 %.",
        "",
        "| network | form | calibration images | test images | top-1 % | top-5 % | agreement with FP32 % | cosine "
        "| seconds | top-1 less FP32's | agreement of the default preset less this |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [*_cells(row), _text(paired_accuracy(rows, row)), _text(paired_agreement(rows, row))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _summary(rows: Sequence[Row]) -> Iterator[str]:
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
    for row in _best_modes(rows):
        found = paired_agreement(rows, row)
        own = [_agreement(_form(rows, row, form)) for form in (DEFAULT_FORM, BEST_FORM)]
        cosine = paired_cosine(rows, row)
        verdicts = ["" if each is None else each.verdict for each in (found, cosine)]
        cells = [row.network, str(row.calibration_samples), *own, str(row.peer), row.form, _agreement(row)]
        yield "| " + " | ".join([*cells, _difference(found), *verdicts]) + " |"


def _files(rows: Sequence[Row]) -> Iterator[str]:
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
    best = {(row.network, row.calibration_samples, row.peer): row for row in _best_modes(rows)}
    for row in rows:
        other = best.get((row.network, row.calibration_samples, row.engine))
        if other is None or other.images is None or row.images is None:
            continue
        found = paired(row.images.same, other.images.same)
        cosine = paired_means(row.images.cosine, other.images.cosine)
        cells = [row.network, str(row.calibration_samples), row.form, _agreement(row), other.form, _agreement(other)]
        yield "| " + " | ".join([*cells, _difference(found), found.verdict, cosine.verdict]) + " |"


def _best_modes(rows: Sequence[Row]) -> Iterator[Row]:
    groups: dict[tuple[str, Optional[int], str], list[Row]] = {}
    for row in rows:
        if row.peer is not None and row.images is not None:
            groups.setdefault((row.network, row.calibration_samples, row.peer), []).append(row)
    for group in groups.values():
        yield max(group, key=lambda row: (row.images.same.mean(), row.images.cosine.mean()) if row.images else (0, 0))


def _form(rows: Iterable[Row], like: Row, form: str) -> Optional[Row]:
    """The row of another form of the same network with as many calibration images."""
    wanted = (like.network, like.calibration_samples, form)
    return next((row for row in rows if (row.network, row.calibration_samples, row.form) == wanted), None)


def _figures(row: Row) -> dict[str, Any]:
    if row.images is None:
        return {}
    images = row.images
    shares = {name: 100 * float(getattr(images, name).mean()) for name in ("top1", "top5")}
    return {
        "images": len(images.same),
        **shares,
        "agreement": 100 * float(images.same.mean()),
        "changed": int((~images.same).sum()),
        "cosine": float(images.cosine.mean()),
    }


def _cells(row: Row) -> list[str]:
    samples = "" if row.calibration_samples is None else str(row.calibration_samples)
    seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
    if row.images is None:
        return [row.network, row.form, samples, f"failed: {(row.failure or '').replace('|', '/')}", "", "", "", "", ""]
    found = _figures(row)
    shares = [f"{found[name]:.2f}" for name in ("top1", "top5", "agreement")]
    return [row.network, row.form, samples, str(found["images"]), *shares, f"{found['cosine']:.5f}", seconds]


def _agreement(row: Optional[Row]) -> str:
    if row is None or row.images is None:
        return ""
    return f"{100 * row.images.same.mean():.2f}, {row.images.cosine.mean():.5f}"


def _difference(found: Optional[Paired]) -> str:
    if found is None:
        return ""
    return f"{100 * found.difference:+.2f} [{100 * found.low:+.2f}, {100 * found.high:+.2f}]"


def _text(found: Optional[Paired]) -> str:
    return "" if found is None else f"{_difference(found)} {found.verdict}"


def _pair(found: Union[Paired, PairedMeans, None]) -> Optional[dict[str, Any]]:
    return None if found is None else {**asdict(found), "verdict": found.verdict}
