"""Rows of a table of accuracy: what each image says of a form, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Optional, Union

import numpy as np

from quantkit.benchmark.accuracy.forms import UNFUSED
from quantkit.evaluation.paired import Paired, PairedMeans, paired, paired_means
from quantkit.quantization.ptq_config import DEFAULT_PRESET

DEFAULT_FORM = f"quantkit preset {DEFAULT_PRESET}"


@dataclass(frozen=True, eq=False)
class PerImage:
    """What each image says of a form, arrays of shape (images,).

    ``top1`` and ``top5`` tell whether its label is among the first or the first five, ``same`` whether FP32 has the
    same top-1; ``cosine`` is that with FP32's outputs.
    """

    top1: np.ndarray
    top5: np.ndarray
    same: np.ndarray
    cosine: np.ndarray


@dataclass(frozen=True, eq=False)
class Row:
    """One network in one form, or why it failed.

    ``peer`` is the other quantizer whose INT8 form it is; ``engine`` the peer in whose engine quantkit's ONNX file ran;
    ``seconds`` are those of the algorithms, or of a peer's quantization.
    """

    network: str
    form: str
    calibration_samples: Optional[int] = None
    images: Optional[PerImage] = None
    seconds: Optional[float] = None
    peer: Optional[str] = None
    engine: Optional[str] = None
    failure: Optional[str] = None


def document(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows' figures as JSON's own types: shares in percent, paired comparisons as differences of shares."""
    return [
        {
            **own_figures(row),
            "accuracy_less_fp32": _pair(paired_accuracy(rows, row)),
            "default_agreement_less_this": _pair(paired_agreement(rows, row)),
            "default_cosine_less_this": _pair(paired_cosine(rows, row)),
            **_beside_peer(rows, row),
        }
        for row in rows
    ]


def own_figures(row: Row) -> dict[str, Any]:
    """A row's figures without its comparisons."""
    return {
        "network": row.network,
        "form": row.form,
        "calibration_samples": row.calibration_samples,
        "peer": row.peer,
        "engine": row.engine,
        "seconds": row.seconds,
        "failure": row.failure,
        **_figures(row),
    }


def rank(figures: Mapping[str, Any]) -> tuple[float, float]:
    """What decides which of several forms is best."""
    return figures["agreement"], figures["cosine"]


def paired_accuracy(rows: Sequence[Row], row: Row) -> Optional[Paired]:
    """The row's accuracy beside that of FP32 on the same network; None for FP32 itself and for failures."""
    fp32 = next(each for each in rows if each.network == row.network and each.form == UNFUSED)
    if row is fp32 or row.images is None or fp32.images is None:
        return None
    return paired(row.images.top1, fp32.images.top1)


def paired_agreement(rows: Sequence[Row], row: Row) -> Optional[Paired]:
    """The default preset's agreement with FP32 beside the row's, both calibrated alike; None where there is none."""
    default = _default(rows, row)
    if default is None or default is row or default.images is None or row.images is None:
        return None
    return paired(default.images.same, row.images.same)


def paired_cosine(rows: Sequence[Row], row: Row) -> Optional[PairedMeans]:
    """The default preset's cosine with FP32 beside the row's, both calibrated alike; None where there is none."""
    default = _default(rows, row)
    if default is None or default is row or default.images is None or row.images is None:
        return None
    return paired_means(default.images.cosine, row.images.cosine)


def _default(rows: Iterable[Row], like: Row) -> Optional[Row]:
    """The default preset's row of the same network with as many calibration images."""
    wanted = (like.network, like.calibration_samples, DEFAULT_FORM)
    return next((row for row in rows if (row.network, row.calibration_samples, row.form) == wanted), None)


def _beside_peer(rows: Sequence[Row], row: Row) -> dict[str, Any]:
    """Of quantkit's file in a peer's engine: its agreement and cosine beside those of the peer's best mode."""
    others = [
        each
        for each in rows
        if (each.network, each.calibration_samples, each.peer) == (row.network, row.calibration_samples, row.engine)
    ]
    best = max((_figures(each) | {"row": each} for each in others if each.images), key=rank, default=None)
    if row.engine is None or row.images is None or best is None:
        return {}
    images = best["row"].images
    return {
        "agreement_less_best_mode": _pair(paired(row.images.same, images.same)),
        "cosine_less_best_mode": _pair(paired_means(row.images.cosine, images.cosine)),
    }


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


def _pair(found: Union[Paired, PairedMeans, None]) -> Optional[dict[str, Any]]:
    return None if found is None else {**asdict(found), "verdict": found.verdict}
