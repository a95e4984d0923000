"""What is drawn, read back from the axes."""

from __future__ import annotations

import io
import itertools
from dataclasses import replace
from typing import Any, Optional
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet

from quantkit.benchmark.results.results import Machine, Published, PublishedSource, Results
from quantkit.benchmark.results.statistics import latencies
from quantkit.report.figures import (
    NAMES,
    accuracy,
    attribution,
    distribution,
    figures,
    published,
    scaling,
    server,
    speedup,
)
from quantkit.report.page.drawing import panel_svg, write_sheet
from quantkit.report.page.figure import DARK, LIGHT, Figure, Panel, log_ticks, styles
from quantkit.report.study.summary import Study, summarize
from quantkit.report.study.words import number
from tests.report.showcase import HOSTILE, complete, hostile
from tests.report.synthetic import INT8, NATIVE, results


def study(given: Results) -> Study:
    return summarize([given])[0]


def drawn(panel: Panel) -> Axes:
    axes = Sheet().add_subplot()
    panel.draw(axes)
    return axes


def found(figure: Optional[Figure]) -> Figure:
    assert figure is not None
    return figure


def tops(axes: Axes) -> list[float]:
    return [bar.get_y() + bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]


def marked(axes: Axes, marker: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for line in axes.lines if line.get_marker() == marker for x, y in line.get_xydata()]


def test_every_figure_is_drawn_where_there_is_data() -> None:
    assert tuple(figures(study(complete()))) == NAMES
    nothing = study(Results(complete().run, ()))
    assert figures(nothing) == {}


def test_bars_are_as_high_as_the_ratios() -> None:
    given = study(complete())
    figure = found(speedup.figure(given, "throughput"))
    assert [panel.title for panel in figure.panels] == ["good", "drawn"]
    assert figure.note == "drawn has random weights."
    for panel, network in zip(figure.panels, ("good", "drawn")):
        expected = [row.speedups["throughput"].value for row in given.rows if row.network == network and row.speedups]
        assert sorted(tops(drawn(panel))) == pytest.approx(sorted(expected))


def test_error_bars_span_the_intervals() -> None:
    given = study(results(batches=(1,), contestants=(NATIVE, INT8)))
    axes = drawn(found(speedup.figure(given, "throughput")).panels[0])
    ratio = next(row.speedup for row in given.rows if row.speedup)
    segment = axes.collections[0].get_segments()[0]  # type: ignore[attr-defined]
    assert [point[1] for point in segment] == pytest.approx([ratio.low, ratio.high])


def test_published_speedups_stand_beside_ours_on_an_axis_of_their_own() -> None:
    given = study(complete())
    (panel,) = found(published.figure(given)).panels
    row = next(row for row in given.rows if row.key == ("good", 8, "INT8"))
    ours, theirs = drawn(panel).child_axes
    assert [bar.get_width() for bar in ours.patches] == [pytest.approx(row.speedups["throughput"].value)]  # type: ignore[attr-defined]
    assert [bar.get_width() for bar in theirs.patches] == [28.25]  # type: ignore[attr-defined]
    assert [label.get_text() for label in ours.get_yticklabels()] == ["good, batch 8"]
    assert ours.get_xlabel().startswith("this machine: ") and theirs.get_xlabel().startswith("a server: 48 ")
    assert f"{row.speedups['throughput'].value / 28.25:.0%}" in [text.get_text() for text in theirs.texts]
    assert published.figure(study(results())) is None


def test_published_throughput_stands_beside_ours_where_no_speedup_is_published() -> None:
    given = results(("net",), (1,), (NATIVE, INT8))
    figures = (Published("net", 1, "INT8", "throughput", "throughput", 250.0),)
    known = study(replace(given, run=replace(given.run, published=figures)))
    (panel,) = found(published.figure(known)).panels
    (row,) = (row for row in known.rows if row.contestant == "INT8")
    ours, theirs = drawn(panel).child_axes
    assert panel.title == "INT8: images/s"
    assert [bar.get_width() for bar in ours.patches] == [pytest.approx(row.throughput)]  # type: ignore[attr-defined]
    assert [bar.get_width() for bar in theirs.patches] == [250.0]  # type: ignore[attr-defined]
    assert [text.get_text() for text in theirs.texts] == ["250", f"{row.throughput / 250:.0%}"]
    assert not ours.lines and theirs.get_xlabel() == "published"
    assert panel.alternative.endswith(f"net at batch size 1 {number(row.throughput)}, published 250.")


def test_of_published_throughput_only_what_has_no_speedup_is_drawn() -> None:
    """A speed-up follows from the throughput of a network and of the baseline, which has none itself."""
    given = results(("net",), (16,), (NATIVE, INT8))
    source = PublishedSource("guide", "", Machine("a server", 4, "AVX2"))
    figures = tuple(
        Published("net", 224, name, "throughput", "throughput", value, "guide", nearest=True)
        for name, value in ((NATIVE.name, 10.0), (INT8.name, 90.0))
    )
    run = replace(given.run, published=figures, sources=(source,))
    panels = found(published.figure(study(replace(given, run=run)))).panels
    assert [panel.title for panel in panels] == ["INT8: throughput, times native", "native: images/s"]
    for panel, value in zip(panels, (9.0, 10.0)):
        ours, theirs = drawn(panel).child_axes
        assert [bar.get_width() for bar in theirs.patches] == [pytest.approx(value)]  # type: ignore[attr-defined]
        assert theirs.get_xlabel() == "a server: 4 cores, AVX2"
        assert [label.get_text() for label in ours.get_yticklabels()] == ["net, batch 16 (224)"]


def test_of_many_batch_sizes_the_smallest_and_the_largest_are_drawn() -> None:
    given = results(("net",), (1, 4, 16), (NATIVE, INT8))
    figures = tuple(Published("net", batch, "INT8", "throughput", "speedup", 9.0) for batch in (1, 4, 16))
    (panel,) = found(published.figure(study(replace(given, run=replace(given.run, published=figures))))).panels
    assert [label.get_text() for label in drawn(panel).child_axes[0].get_yticklabels()] == [
        "net, batch 1",
        "net, batch 16",
    ]


def test_another_batch_size_of_the_published_figure_is_named() -> None:
    given = results(("net",), (1, 16), (NATIVE, INT8))
    figures = (Published("net", 224, "INT8", "throughput", "speedup", 9.0, nearest=True),)
    (panel,) = found(published.figure(study(replace(given, run=replace(given.run, published=figures))))).panels
    assert [label.get_text() for label in drawn(panel).child_axes[0].get_yticklabels()] == ["net, batch 16 (224)"]


def test_figures_of_several_machines_have_a_panel_each() -> None:
    given = results(("a", "b"), (1, 4), (NATIVE, INT8))
    sources = tuple(PublishedSource(name, "", Machine(name, 4, "AVX2")) for name in ("one", "two"))
    figures = tuple(
        Published(network, batch, "INT8", "throughput", "speedup", 9.0, table)
        for network, table in (("a", "one"), ("b", "two"))
        for batch in (1, 4)
    )
    run = replace(given.run, published=figures, sources=sources)
    panels = found(published.figure(study(replace(given, run=run)))).panels
    shown = [drawn(panel).child_axes for panel in panels]
    assert [right.get_xlabel() for _, right in shown] == ["one: 4 cores, AVX2", "two: 4 cores, AVX2"]
    assert [[label.get_text() for label in left.get_yticklabels()] for left, _ in shown] == [
        ["a, batch 1", "a, batch 4"],
        ["b, batch 1", "b, batch 4"],
    ]


def test_a_published_value_does_not_flatten_our_bars() -> None:
    given = complete()
    far = replace(given.run, published=tuple(replace(each, value=1000.0) for each in given.run.published))
    before, after = (
        [drawn(panel).get_ylim() for panel in found(speedup.figure(study(each), "throughput")).panels]
        for each in (given, Results(far, given.cells))
    )
    assert before == after


def test_networks_of_one_batch_size_stand_side_by_side() -> None:
    figure = found(speedup.figure(study(results(("a", "b", "c"), (1,))), "throughput"))
    (panel,) = figure.panels
    assert [label.get_text() for label in drawn(panel).get_xticklabels()] == ["a\nbatch 1", "b\nbatch 1", "c\nbatch 1"]


def test_the_waterfall_ends_at_the_total() -> None:
    given = study(results(batches=(1,)))
    axes = drawn(found(attribution.figure(given)).panels[0])
    *steps, total = axes.patches
    best = max(row.speedup.value for row in given.rows if row.speedup)
    assert tops(axes)[-2:] == pytest.approx([best, best])
    assert total.get_y() == 1  # type: ignore[attr-defined]
    for before, after in itertools.pairwise(steps):
        assert after.get_y() == pytest.approx(before.get_y() + before.get_height())  # type: ignore[attr-defined]


def test_scaling_shows_the_ideal() -> None:
    axes = drawn(found(scaling.figure(study(results(batches=(1,))))).panels[0])
    ideal, real = axes.lines[0], axes.lines[1]
    assert list(ideal.get_ydata()) == [1, 1]
    assert list(real.get_ydata()) == pytest.approx([1, 1.2], rel=0.08)


def test_distributions_are_cumulative_shares() -> None:
    given = study(results(batches=(4, 1), contestants=(NATIVE, INT8), requests=200))
    panel = found(distribution.figure(given)).panels[0]
    assert panel.title == "resnet50_v1, batch 1"
    axes = drawn(panel)
    curves = [line for line in axes.lines if line.get_marker() == "None"]
    for line, name in zip(curves, ("native", "INT8")):
        times = np.sort(latencies(given.cells["resnet50_v1", 1, name]))
        x, y = map(np.asarray, line.get_data())
        assert (x[0], x[-1], y[0], y[-1]) == pytest.approx((times[0], times[-1], 0, 1))
        assert y[1:] == pytest.approx(np.searchsorted(times, x[1:], "right") / times.size)
        mark = marked(axes, "^")[("native", "INT8").index(name)]
        assert mark == pytest.approx((np.percentile(times, 99), 0.99))


def test_accuracy_shows_trained_networks_only() -> None:
    (panel,) = found(accuracy.figure(study(complete()))).panels
    axes = drawn(panel)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["good"]
    assert marked(axes, "o") == [(pytest.approx(97.2), 0)]


def test_server_marks_what_is_not_valid() -> None:
    axes = drawn(found(server.figure(study(complete()))).panels[0])
    points = [line for line in axes.lines if line.get_marker() not in ("None", "")]
    assert [line.get_markerfacecolor() == LIGHT["paper"] for line in points] == [False, False, False, True, True]
    assert list(axes.lines[0].get_ydata()) == [15, 15]


def test_contestants_keep_their_look_and_differ() -> None:
    run = complete().run
    many = replace(run, contestants=tuple(replace(INT8, name=str(number)) for number in range(13)), baseline="0")
    looks = styles(many)
    assert len({(style.colour, style.hatch) for style in looks.values()}) == 13


@pytest.mark.parametrize(("low", "high"), [(1, 1.5), (3, 8), (0.02, 900), (95, 105), (4.9, 5.1)])
def test_logarithmic_axes_have_ticks(low: float, high: float) -> None:
    ticks = log_ticks(low, high)
    assert len(ticks) >= 2
    assert all(low <= tick <= high for tick in ticks)


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_have_contrast(palette: dict[str, str]) -> None:
    """WCAG 2.1: 3 to 1 for graphics, 4.5 to 1 for text."""
    paper = luminance(palette["paper"])
    for name, colour in palette.items():
        low, high = sorted((paper, luminance(colour)))
        contrast = (high + 0.05) / (low + 0.05)
        assert contrast >= (4.5 if name in ("ink", "muted") else 0 if name in ("paper", "grid") else 3), name
    assert LIGHT.keys() == DARK.keys()
    assert len(set(LIGHT.values())) == len(LIGHT)


def draw_all(axes: Any) -> None:
    axes.bar([0, 1], [1, 2], facecolor=LIGHT["series1"], hatch="//")
    axes.plot([0, 1], [1, 2], "o", color=LIGHT["series2"])
    axes.set_xticks([0, 1], ['id="x"', "#0072b2"])


def test_panels_take_their_colours_from_the_page() -> None:
    root = ElementTree.fromstring(panel_svg(Panel("", 'a "b" <c> \\1', draw_all), "p7-"))
    attributes = [(name, value) for element in root.iter() for name, value in element.items()]
    assert root.attrib["aria-label"] == 'a "b" <c> \\1'
    assert not {"style", "metadata"} & {element.tag for element in root.iter()}
    assert not [value for _, value in attributes if any(colour in value for colour in LIGHT.values())]
    assert any("var(--series1)" in value for _, value in attributes)
    ids = [value for name, value in attributes if name == "id"]
    assert ids
    assert all(value.startswith("p7-") for value in ids)
    links = [
        value.strip("#").removeprefix("url(#").rstrip(")")
        for name, value in attributes
        if name in ("href", "clip-path")
    ]
    assert set(links) <= set(ids)
    assert {element.text for element in root.iter("text")} >= {'id="x"', "#0072b2"}


def test_hostile_names_are_only_text() -> None:
    for figure in figures(study(hostile())).values():
        for panel in figure.panels:
            root = ElementTree.fromstring(panel_svg(panel, "p-"))
            assert {element.tag for element in root.iter()} <= {
                "svg",
                "g",
                "path",
                "defs",
                "use",
                "text",
                "clipPath",
                "rect",
                "pattern",
            }
            assert HOSTILE[:20] in root.attrib["aria-label"] or "=1+1" in root.attrib["aria-label"]


def test_a_sheet_alone_says_that_weights_are_random() -> None:
    figure = found(speedup.figure(study(complete()), "throughput"))
    written = io.BytesIO()
    write_sheet(figure, written, "svg")
    assert figure.note
    assert figure.note in written.getvalue().decode()
