"""The scripts that measure trainings: what their tables say of known readings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from quantkit.training.communication import Alone

HOST = {"cpu": "Some processor", "vnni": "yes"}


def document(**figures: Any) -> dict[str, Any]:
    return {"command": "python benchmarks/some.py", "host": HOST, **figures}


def test_efficiency_is_that_of_as_many_single_instances() -> None:
    from alternating_trainings import Turn
    from training_scaling import APART, Cell, lines

    singles = [Turn(10.0, 0.01, 0.2), Turn(12.0, 0.03, 0.4)]
    pairs = [Turn(19.0, 0.0, 1.0), Turn(22.8, 0.0, 1.0)]
    apart = [Turn(19.6, 0.0, 0.5), Turn(23.52, 0.0, 0.5)]
    forms = [(1, "", singles), (2, APART, apart), (2, "horovod", pairs)]
    cells = [Cell("net", 5_000_000, 8, number, through, turns) for number, through, turns in forms]
    one, beside, two = lines(document(cells=[asdict(cell) for cell in cells]))
    assert one == "| net | 5.0 million | 8 | 1 |  | 11.0 | 100 |  | 2.0 | 0.30 | 1 | 2 |"
    assert beside == "| net | 5.0 million | 8 | 2 | apart | 21.6 | 98.0 [98.0, 98.0] |  | 0.0 | 0.50 | 1 | 2 |"
    # 19 of 20 and 22.8 of 24 in each round; 19 of 19.6.
    assert (
        two
        == "| net | 5.0 million | 8 | 2 | horovod | 20.9 | 95.0 [95.0, 95.0] | 96.9 [96.9, 96.9] | 0.0 | 1.00 | 1 | 2 |"
    )


def test_intervals_are_those_over_starts() -> None:
    from alternating_trainings import Turn, throughputs
    from training_scaling import Cell, lines

    starts = [(0, 10.0), (0, 40.0), (1, 30.0), (1, 30.0), (2, 5.0)]
    readings = [Turn(speed, 0.0, 0.0, start) for start, speed in starts]
    assert throughputs(readings) == pytest.approx([20.0, 30.0, 5.0])
    assert throughputs(readings[:2]) == [10.0, 40.0]
    # Rounds of a start differ by a third from each other, but their mean is the same.
    alone = [Turn(speed, 0.0, 0.0, start) for start in range(3) for speed in (10.0, 10.0)]
    pairs = [Turn(speed, 0.0, 0.0, start) for start in range(3) for speed in (18 * 0.75, 18 / 0.75)]
    cells = [Cell("net", 5_000_000, 8, number, "", found) for number, found in ((1, alone), (2, pairs))]
    assert lines(document(cells=[asdict(cell) for cell in cells]))[1].endswith(
        "| 90.0 [90.0, 90.0] |  | 0.0 | 0.00 | 3 | 6 |"
    )


def test_efficiency_is_told_for_each_batch() -> None:
    from alternating_trainings import Turn
    from training_scaling import Cell, lines

    def cell(batch: int, instances: int, *speeds: float) -> Cell:
        return Cell("net", 5_000_000, batch, instances, "", [Turn(speed, 0.0, 0.0) for speed in speeds])

    cells = [cell(8, 1, 10, 10), cell(8, 2, 18, 18), cell(32, 1, 12, 12), cell(32, 2, 24, 24)]
    found = [line.split(" | ")[6] for line in lines(document(cells=[asdict(each) for each in cells]))]
    assert found == ["100", "90.0 [90.0, 90.0]", "100", "100.0 [100.0, 100.0]"]


def test_communication_is_what_a_step_alone_does_not_take() -> None:
    from kvstore import Row, lines

    parts = (0.05, 0.6, 0.1, 0.25)
    rows = [
        Row("net", 25_000_000, 8, "dist_sync", [0.1, 0.1, 0.4], [0.8, 0.4, 0.8], [1.0, 0.5, 1.0], parts),
        Row("net", 25_000_000, 8, "horovod", [0.2, 0.2], [0.8, 0.5], [0.5, 0.8], parts),
    ]
    first, second = ([*map(str.strip, line.split("|")[5:-1])] for line in lines(document(rows=map(asdict, rows))))
    assert first == ["100.0", "1.00", "800", "1000", "20.0 [20.0, 20.0]", "3", "5.0", "60.0", "10.0", "25.0"]
    # Rounds that contradict each other leave room for less than nothing.
    share, low, high = (float(figure.strip("[],")) for figure in second[4].split())
    assert share == 0 and low < -100 < 90 < high


@pytest.mark.parametrize(("seconds", "rounds"), [(0.001, 100), (1.0, 15), (60.0, 6)])
def test_exchanges_are_measured_in_as_many_rounds_as_half_a_minute_takes(
    monkeypatch: pytest.MonkeyPatch, seconds: float, rounds: int
) -> None:
    import kvstore

    called: list[str] = []
    calls = (lambda: called.append("exchange"), lambda: called.append("step"))

    def timed(call: Callable[[], None]) -> float:
        call()
        return seconds

    monkeypatch.setattr(kvstore, "timed", timed)
    assert kvstore._readings(calls, Alone()) == [[seconds] * rounds] * 2
    # Two more rounds warm up; calls take turns in all.
    assert called == ["exchange", "step"] * (2 + rounds)


def test_parts_of_a_step_are_means() -> None:
    from training_steps import mean_parts

    # The first waits in one step, the second in the other one.
    assert mean_parts([(1.0, 0.0, 2.0), (1.0, 4.0, 0.0)]) == [1.0, 2.0, 1.0]


def test_cycle_times_are_compared_with_quantkits_own() -> None:
    from horovod_cycle import Row, lines

    rows = [
        Row("net", 8, 3.6, True, [10.0, 20.0]),
        Row("net", 8, 1, False, [9.0, 18.0]),
        Row("other", 32, 35.1, True, [4.0, 4.0]),
        Row("other", 32, 100, False, [2.0, 2.0]),
    ]
    assert [*lines(document(rows=[asdict(row) for row in rows]))] == [
        "| net | 8 | 3.6 | 15.0 | 100 |",
        "| net | 8 | 1 | 13.5 | 90.0 [90.0, 90.0] |",
        "| other | 32 | 35.1 | 4.0 | 100 |",
        "| other | 32 | 100 | 2.0 | 50.0 [50.0, 50.0] |",
    ]


def test_parts_of_a_step_are_shares_of_it() -> None:
    from input_bound import Row, lines

    (line,) = lines(document(rows=[asdict(Row(1000, 100, True, "adam", 2, (0.1, 0.2, 0.3, 0.4)))]))
    assert line == "| 1000 | 100 | 1.6 million | sparse | adam | 2 | 1000 | 10.0 | 20.0 | 30.0 | 40.0 |"


def test_images_per_second_stand_in_a_row_for_each_network() -> None:
    from training_score import Row, columns, lines

    rows = [Row("alexnet", 16, [0.5, 0.4, 0.8]), Row("alexnet", 32, [1.0]), Row("net", 1, [0.25]), Row("net", 2, [0.5])]
    found = document(rows=[asdict(row) for row in rows])
    assert columns(found) == ["network", "batch 1", "batch 2"]
    assert list(lines(found)) == [
        "| alexnet, 16 times the batch | 32.0 [20.0, 40.0] | 32.0 [32.0, 32.0] |",
        "| net | 4.0 [4.0, 4.0] | 4.0 [4.0, 4.0] |",
    ]


def test_the_feed_has_a_row_for_each_form() -> None:
    from training_feed import Row, lines

    (line,) = lines(document(rows=[asdict(Row("photographs", "net", "none", 2, [90.0, 110.0, 100.0], [200.0]))]))
    assert line == "| photographs | net | none | 2 | 100 | 90, 110 | 200 | 200, 200 |"


def test_the_interval_over_seeds_is_students() -> None:
    from convergence import Row, interval, page

    values = [0.91, 0.95, 0.93, 0.96]
    mean, half = interval(values)
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((expected.low, expected.high))
    row = Row("1 instance, batch 32", 360, [[0.5, 0.9], [0.6, 0.9]])
    written = page(document(rows=[asdict(row)]))
    # Two values 10 points apart: a standard error of 5, times 12.706.
    assert "| 1 | 55.00 ± 63.53 |" in written and "| 2 | 90.00 ± 0.00 |" in written


def test_parameters_that_differ_are_counted() -> None:
    from resuming import Row, lines

    (line,) = lines(document(rows=[asdict(Row("adam", "one process", 107, 2))]))
    assert line == "| cifar_resnet20_v1 | adam | one process | 3 | 1, 2 | 107 | 2 |"


def test_fine_tuned_networks_have_a_row() -> None:
    from finetuning import Row, lines

    trained, judged = (1000, 8, 90.0, 88.9, 0.013), (360, 0.99, 0.98, "not distinguishable", 0.5)
    row = Row("net", "digits", "rate 0.02", *trained, [10.0, 12.0], [19.0, 22.8], *judged)
    (line,) = lines(document(rows=[asdict(row)]))
    # 19 of 20 and 22.8 of 24.
    assert line == (
        "| net | digits | rate 0.02 | 1000 | 8 | 1.5 | 88.9 | 1.3 | 0.025 | 95.0 [95.0, 95.0] | 360 | 99.00 | 98.00 | "
        "not distinguishable, p = 0.5 |"
    )


def test_networks_trained_with_quantization_have_a_row() -> None:
    from quantization_aware import Row, lines

    tops, cosines = (0.921, 0.9205, 0.9207), (0.9998, 0.9999)
    row = Row("net", "best", 2000, 120.0, 5000, (0.9924, 0.9948), 17, 5, 0.017, "better", tops, cosines)
    (line,) = lines(document(rows=[asdict(row)]))
    assert line == (
        "| net | `best` | 2000 images | 2.0 | 5000 images | 99.24 | 99.48 | 17, 5 | 0.017 | better | 92.10 | 92.05 | "
        "92.07 | 0.99980 | 0.99990 |"
    )


def test_every_form_has_a_line_in_the_figure() -> None:
    import matplotlib.pyplot as plt
    from convergence import Row, figure

    rows = [Row(f"{number} instances, batch 8", 360, np.full((3, 4), 0.9).tolist()) for number in range(3)]
    drawing = figure(rows)
    axes = plt.figure().add_subplot()
    drawing.panels[0].draw(axes)
    assert len(axes.containers) == 3 and [entry.label for entry in drawing.legend] == [
        "0, batch 8",
        "1, batch 8",
        "2, batch 8",
    ]
    plt.close("all")
