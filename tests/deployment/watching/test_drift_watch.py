"""When signals drift, and when they are as usual again."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.deployment.watching.drift_watch import FALSE_ALARMS, LOOKS, Change, DriftWatch
from quantkit.drift.reference import DriftReference, reference_of
from quantkit.drift.two_samples import chance

RANDOM = np.random.default_rng(0)
NAMES = ("input.mean", "input.spread", "output.margin")


def drawn(samples: int, shift: float = 0.0) -> dict[str, np.ndarray]:
    """Three signals, of which a shift moves the last."""
    values = {name: RANDOM.normal(place, 1.0, samples) for place, name in enumerate(NAMES)}
    return {**values, "output.margin": values["output.margin"] + shift}


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """The same draws in every order of the tests."""
    RANDOM.bit_generator.state = np.random.default_rng(1).bit_generator.state


@pytest.fixture
def reference() -> DriftReference:
    return reference_of([drawn(100)])


def told(changes: list[Change]) -> list[tuple[str, bool]]:
    return [(change.signal, change.begins) for change in changes]


def test_what_is_usual_is_never_told(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert [change for _ in range(100) for change in watch.add(drawn(64))] == []
    assert not watch.drifting
    assert set(watch.looks) == set(NAMES)


def test_a_large_shift_is_told_at_the_first_look_and_once(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert watch.add(drawn(LOOKS[0] - 1, 10.0)) == []
    changes = watch.add(drawn(1, 10.0))
    assert told(changes) == [("output.margin", True)]
    assert changes[0].look == watch.looks["output.margin"]
    assert changes[0].look.samples == LOOKS[0]
    assert changes[0].look.distance == 1.0
    assert watch.drifting == {"output.margin"}
    assert [change for _ in range(50) for change in watch.add(drawn(16, 10.0))] == []


def test_a_smaller_shift_takes_more_samples(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    changes = watch.add(drawn(LOOKS[-1], 1.2))
    assert told(changes) == [("output.margin", True)]
    assert changes[0].look.samples > LOOKS[0]


def test_it_is_as_usual_again_after_a_whole_window(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    watch.add(drawn(LOOKS[-1], 10.0))
    assert watch.add(drawn(LOOKS[-1] - 1)) == []
    assert watch.drifting == {"output.margin"}
    assert told(watch.add(drawn(1))) == [("output.margin", False)]
    assert not watch.drifting


def test_a_large_shift_is_told_soon_wherever_it_begins(reference: DriftReference) -> None:
    for before in (0, 1, 70, 250, 1000):
        watch = DriftWatch(reference)
        assert watch.add(drawn(before)) == []
        assert told(watch.add(drawn(2 * LOOKS[0] - 1, 10.0))) == [("output.margin", True)]


def test_a_shift_within_a_window_keeps_the_signal_until_the_next(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert told(watch.add(drawn(LOOKS[0], 10.0))) == [("output.margin", True)]
    watch.add(drawn(LOOKS[-1] - LOOKS[0]))
    assert watch.drifting == {"output.margin"}
    assert told(watch.add(drawn(LOOKS[-1]))) == [("output.margin", False)]


@pytest.mark.parametrize("size", [1, 5, 16, 100, 1000])
def test_the_sizes_of_batches_change_nothing(reference: DriftReference, size: int) -> None:
    whole = {name: np.concatenate([drawn(700)[name], drawn(300, 3.0)[name]]) for name in NAMES}
    one, other = DriftWatch(reference), DriftWatch(reference)
    expected = one.add(whole)
    changes = []
    for start in range(0, 1000, size):
        changes += other.add({name: values[start : start + size] for name, values in whole.items()})
    assert changes == expected
    assert (other.looks, other.drifting) == (one.looks, one.drifting)


def test_the_level_is_shared_among_signals(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert chance(watch.least, 100, LOOKS[-1]) == pytest.approx(FALSE_ALARMS / len(NAMES))
    assert DriftWatch(reference_of([drawn(8)])).least > 1


def test_what_is_not_finite_and_what_is_not_known_is_left_out(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    signals = drawn(LOOKS[0] + 1)
    signals["input.mean"][3] = np.nan
    assert watch.add({**signals, "output7.mean": np.ones(LOOKS[0] + 1)}) == []
    assert {look.samples for look in watch.looks.values()} == {LOOKS[0]}
    assert np.isfinite([look.mean for look in watch.looks.values()]).all()
    assert watch.add({"output7.mean": np.ones(300)}) == []
    # Integers have no values beyond the range.
    del signals["input.mean"]
    watch.add(signals)
