"""``quantkit evaluate`` of detectors and the like: networks judged by the metric of their task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from quantkit.cli.console import RenderableType
    from quantkit.cli.terminal import Terminal
    from quantkit.evaluation.joint_run import Role
    from quantkit.evaluation.measure import Score, ScoreDrop
    from quantkit.evaluation.network import Network
    from quantkit.tasks.evaluate import TaskEvaluation

_LABELS: dict[Role, str] = {"network": "score", "reference": "reference", "against": "other"}


def show_task(
    terminal: Terminal,
    network: Network,
    named: Mapping[Role, Optional[str]],
    data: str,
    evaluation: TaskEvaluation,
    max_drop: Optional[float],
) -> bool:
    """Print how networks, by names and roles, were judged, and tell whether the goal, if there is one, was met."""
    from quantkit.quantization.goal import Goal

    loss = evaluation.loss
    met = max_drop is None or (loss is not None and Goal(max_drop=max_drop).accurate(loss))
    result: dict[str, Any] = {
        "network": named.get("network"),
        "reference": named.get("reference"),
        "against": named.get("against"),
        "kind": network.kind,
        "weights": network.weights,
        "data": data,
        **evaluation.document,
        "max_drop": max_drop,
        "met": None if max_drop is None else met,
    }
    terminal.show(result, *_tables(result, evaluation))
    return met


def _tables(result: Mapping[str, Any], evaluation: TaskEvaluation) -> list[RenderableType]:
    from rich.text import Text

    from quantkit.cli.summary import grid_of

    rows = [("images", f"{evaluation.images} of {result['data']}"), *_rows(evaluation)]
    if result["max_drop"] is not None:
        rows.append(("goal", goal_text(result, evaluation.loss, "points")))
    if result["weights"] == "random":
        rows.append(("weights", "RANDOM: scores mean nothing"))
    rows += [("note", note) for note in evaluation.notes]
    others = [result[role] for role in ("reference", "against") if result[role]]
    against = f" against {' and '.join(others)}" if others else ""
    title = f"\n{result['network']} ({result['kind'].upper()}){against}: {evaluation.task}"
    return [Text(title, "bold"), grid_of(rows)]


def goal_text(result: Mapping[str, Any], loss: Optional[float], unit: str) -> str:
    """Whether the goal in a command's result was met, and by how much."""
    lost = "unknown" if loss is None else f"{loss:.2f}"
    return f"{'met' if result['met'] else 'MISSED'}: loss {lost} of {result['max_drop']:g} {unit}"


def _rows(evaluation: TaskEvaluation) -> Iterator[tuple[str, str]]:
    for role, label in _LABELS.items():
        if role in evaluation.scores:
            yield label, _texts(evaluation.scores[role])
    for label, role in (("agreement", "network"), ("of other", "against")):
        if role in evaluation.agreement:
            yield label, _texts(evaluation.agreement[role])
    for label, role in (("to reference", "reference"), ("to other", "against")):
        if role in evaluation.drops:
            yield label, _drop_text(evaluation.drops[role])


def _texts(scores: tuple[Score, ...]) -> str:
    return "\n".join(score.text for score in scores)


def _drop_text(drop: ScoreDrop) -> str:
    if drop.points is None or drop.low is None or drop.high is None:
        return f"{drop.name}: nothing to score"
    # Gains are positive, as where networks are compared by accuracy; no gain is +0.00, not -0.00.
    gain, low, high = (0.0 - loss for loss in (drop.points, drop.high, drop.low))
    return f"{drop.name} {gain:+.2f} points [{low:+.2f}, {high:+.2f}]: {drop.verdict}"
