"""What ``quantize`` prints about a search for a mixed-precision network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from quantkit.cli.summary import grid_of
from quantkit.quantization.goal import Goal
from quantkit.units import counted, percent

if TYPE_CHECKING:
    from rich.table import Table

    from quantkit.cli.console import RenderableType
    from quantkit.data.sample_noun import SampleNoun


def mixed_tables(result: Mapping[str, Any], noun: SampleNoun) -> list[RenderableType]:
    """``mixed_precision.summary.search_summary`` in words; ``noun`` is what a sample is called."""
    from rich.text import Text

    parts: list[RenderableType] = []
    if result["layers"]:
        parts += [Text("\nKept in FP32 for accuracy", "bold"), _layers_table(result)]
    judged = f"{counted(result['images'], noun)} of {result['data']}"
    rows = [*zip(("goal", ""), _goal_texts(result, noun))]
    if result["measure"] is not None:
        rows += [
            (result["measure"], f"FP32 {_score_text(result, result['fp32'])}, {_scores_text(result)}"),
            ("drop", f"{_drop_text(result)} on {judged}"),
        ]
    if result["layers"] and result["measure"] is not None:
        rows.append(("", f"the layers were chosen on these same {noun}s, so the drop on others may be larger"))
    rows.append(("speed", _speed_text(result)))
    if result["time_is_up"]:
        measured = result["candidates"]
        rows.append(
            (
                "search",
                f"ended by its budget: {measured['measured']} of {measured['found']} layers and groups measured, "
                f"{result['measurements']['made']} measurements in all; the same command goes on from there",
            )
        )
    title = Text("Goal" if parts else "\nGoal", "bold")
    return [*parts, title, grid_of(rows)]


def _goal_texts(result: Mapping[str, Any], noun: SampleNoun) -> list[str]:
    goal, mixed = Goal(**result["goal"]), result["mixed"]
    parts = []
    if goal.max_drop is not None:
        parts.append((_bound_text(goal.max_drop, result["measure"], noun), goal.accurate(mixed["drop"])))
    if goal.min_speedup is not None:
        parts.append((f"at least {goal.min_speedup:g}x as fast as FP32", goal.fast(mixed["speedup"])))
    return [f"{text}: {'met' if met else 'NOT MET'}" for text, met in parts]


def _bound_text(most: float, measure: str, noun: SampleNoun) -> str:
    if measure == "perplexity":
        return f"perplexity at most {most:g} % higher"
    what = f"agreement with FP32 (the {noun}s have no labels)" if measure == "agreement" else measure
    return f"at most {most:g} points less {what}"


def _score_text(result: Mapping[str, Any], score: float) -> str:
    return f"{score:.4g}" if result["measure"] == "perplexity" else percent(score)


def _scores_text(result: Mapping[str, Any]) -> str:
    text = f"all INT8 {_score_text(result, result['all_int8']['score'])}"
    return f"{text}, mixed {_score_text(result, result['mixed']['score'])}" if result["layers"] else text


def _drop_text(result: Mapping[str, Any]) -> str:
    check, unit = result["mixed"], "%" if result["measure"] == "perplexity" else "points"
    low, high = check["interval"]
    return f"{check['drop']:.2f} {unit}, 95 % interval {low:.2f} to {high:.2f},"


def _speed_text(result: Mapping[str, Any]) -> str:
    int8, mixed = result["all_int8"], result["mixed"]
    text = f"{mixed['latency_ms']:.2f} ms, {mixed['speedup']:.2f}x as fast as FP32"
    return f"{text} (all INT8: {int8['speedup']:.2f}x)" if result["layers"] else text


def _layers_table(result: Mapping[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("layer", "operator"):
        table.add_column(title, overflow="fold")
    for title in ("nearer to FP32", "ms"):
        table.add_column(title, justify="right", no_wrap=True)
    for layer in result["layers"]:
        gain = "not measured" if layer["gain"] is None else f"{100 * layer['gain']:.1f} %"
        table.add_row(layer["layer"], layer["operator"], gain, _cost_text(layer["cost_ms"], layer["noise_ms"]))
    int8, mixed = result["all_int8"], result["mixed"]
    together = 1 - mixed["divergence"] / int8["divergence"] if int8["divergence"] else 0.0
    table.add_section()
    table.add_row("together", "", f"{100 * together:.1f} %", _cost_text(mixed["extra_ms"], mixed["noise_ms"]))
    return table


def _cost_text(cost: Optional[float], noise: Optional[float]) -> str:
    if cost is None or noise is None:
        return "-"
    return f"under {noise:.3f}" if cost <= noise else f"{cost:.3f}"
