"""The waterfall from the baseline to the fastest INT8: the factor of each step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Optional

from quantkit.report.page.figure import LIGHT, Entry, Figure, Panel, Style, error_bars, set_log, value_label
from quantkit.report.study.attribution import Attribution, attributions, one_per_network
from quantkit.report.study.summary import Study
from quantkit.report.study.words import TIMES, bounded, factor, ratio_text, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOTAL = Style("baseline")
_STEPS = {
    "faster": ("step that gains", Style("series1")),
    "slower": ("step that loses", Style("series2")),
    "not distinguishable": ("not distinguishable from 1", Style("series5", hatch="////")),
}


def figure(study: Study) -> Optional[Figure]:
    """One waterfall for each network; None if no network has two steps or more."""
    chosen = [each for each in one_per_network(attributions(study)) if len(each.steps) > 1]
    if not chosen:
        return None
    reached = [1.0, *(step.total.value for each in chosen for step in each.steps)]
    edges = 0.8 * min(reached), 2.2 * max(reached)
    panels = tuple(
        Panel(
            f"{each.network}, batch {each.batch}",
            _alternative(each, study.run.baseline),
            partial(_draw, attribution=each, edges=edges),
            height=2.5,
        )
        for each in chosen
    )
    seen = {step.factor.verdict for each in chosen for step in each.steps}
    legend = [Entry(*entry, "bar") for verdict, entry in _STEPS.items() if verdict in seen]
    legend.append(Entry("all steps together", _TOTAL, "bar"))
    metrics = " and ".join(sorted({each.metric for each in chosen}, reverse=True))
    return Figure(
        "attribution",
        f"Where the speed-up over {study.run.baseline} comes from",
        f"By {metrics}. Each bar begins where the one before it ends; its number is the factor of that step "
        "alone, thin bars its 95 % interval. The axis is logarithmic, so that equal factors have equal heights. "
        "Each network is shown at the batch size that has the most steps.",
        tuple(legend),
        panels,
        study.weights_note(each.network for each in chosen),
    )


def _draw(axes: Axes, attribution: Attribution, edges: tuple[float, float]) -> None:
    before = 1.0
    steps = attribution.steps
    bars = [(step.label, step.factor) for step in steps] + [("all", steps[-1].total)]
    set_log(axes, "y", *edges)
    for place, (_, ratio) in enumerate(bars):
        start = 1.0 if place == len(steps) else before
        end = start * ratio.value
        style = _TOTAL if place == len(steps) else _STEPS[ratio.verdict][1]
        axes.bar(place, abs(end - start), 0.62, bottom=min(start, end), facecolor=style.value, hatch=style.hatch)
        summit = max(start, end)
        if bounded(ratio):
            error_bars(axes, [place], [(end, start * ratio.low, start * ratio.high)])
            summit = max(summit, start * ratio.high)
        value_label(axes, place, min(summit * 1.06, edges[1] / 1.35), f"{TIMES}{factor(ratio.value)}")
        if place < len(steps):
            axes.plot([place + 0.31, place + 0.69], [end, end], color=LIGHT["muted"], linewidth=0.8)
        before = end
    axes.axhline(1, color=LIGHT["ink"], linewidth=0.9, linestyle="--")
    axes.set_xticks(
        range(len(bars)),
        [shortened(label, 24).replace(" + ", "\n+ ").replace("placed ", "placed\n") for label, _ in bars],
    )
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.55, len(bars) - 0.45)
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("times the baseline")


def _alternative(attribution: Attribution, baseline: str) -> str:
    steps = "; ".join(f"{step.label} ({step.contestant}) times {ratio_text(step.factor)}" for step in attribution.steps)
    total = ratio_text(attribution.steps[-1].total)
    return (
        f"Waterfall of {attribution.network} at batch size {attribution.batch}, {attribution.metric}, "
        f"from {baseline}: {steps}; together {total}."
    )
