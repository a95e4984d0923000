"""When signals drift, and when they are as usual again."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.deployment.watching.drift_watch import FALSE_ALARM, SIZES, Change, DriftWatch
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


def agreement(share: float, samples: int) -> dict[str, np.ndarray]:
    return {"output.agreement": (RANDOM.random(samples) < share).astype(np.float64)}


@pytest.mark.parametrize(("measured", "now", "drifts"), [(0.99, 0.99, False), (0.99, 0.6, True), (0.6, 1.0, False)])
def test_agreement_drifts_if_it_has_fallen(
    reference: DriftReference, measured: float, now: float, drifts: bool
) -> None:
    watch = DriftWatch(reference.with_agreement(measured, 100))
    changes = [change for _ in range(64) for change in watch.add(agreement(now, 16))]
    assert told(changes) == [("output.agreement", True)] * drifts
    assert watch.smallest_distances["output.agreement"] < watch.smallest_distances["input.mean"]
    found = watch.signals["output.agreement"]
    assert found.distance == pytest.approx(max(0.0, measured - found.mean))
    assert not drifts or found.distance > watch.smallest_distances["output.agreement"]


def test_what_is_usual_is_never_told(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert [change for _ in range(100) for change in watch.add(drawn(64))] == []
    assert not watch.drifting
    assert set(watch.signals) == set(NAMES)


def test_a_large_shift_is_told_at_the_first_test_and_once(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert watch.add(drawn(SIZES[0] - 1, 10.0)) == []
    changes = watch.add(drawn(1, 10.0))
    assert told(changes) == [("output.margin", True)]
    assert changes[0].status == watch.signals["output.margin"]
    assert changes[0].status.samples == SIZES[0]
    assert changes[0].status.distance == 1.0
    assert watch.drifting == {"output.margin"}
    assert [change for _ in range(50) for change in watch.add(drawn(16, 10.0))] == []


def test_a_smaller_shift_takes_more_samples(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    changes = watch.add(drawn(SIZES[2], 1.0))
    assert told(changes) == [("output.margin", True)]
    assert changes[0].status.samples > SIZES[0]


def test_it_is_over_when_enough_samples_say_so(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert told(watch.add(drawn(SIZES[1], 10.0))) == [("output.margin", True)]
    # The test of 256 has these, too, and still rejects.
    assert watch.add(drawn(SIZES[2] - SIZES[1] - 1, 1.0)) == []
    assert watch.add(drawn(1, 1.0)) == []
    assert watch.add(drawn(SIZES[2] - 1)) == []
    assert watch.drifting == {"output.margin"}
    assert told(watch.add(drawn(1))) == [("output.margin", False)]
    assert not watch.drifting


def test_what_took_many_samples_to_tell_takes_as_many_to_settle() -> None:
    watch = DriftWatch(reference_of([drawn(3000)]))
    changes = watch.add(drawn(SIZES[3], 0.3))
    assert [(change.signal, change.status.samples) for change in changes] == [("output.margin", SIZES[3])]
    assert watch.add(drawn(SIZES[3] - 1)) == []
    assert told(watch.add(drawn(1))) == [("output.margin", False)]


def test_a_short_shift_ends_with_the_next_settling_test(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert told(watch.add(drawn(SIZES[0], 10.0))) == [("output.margin", True)]
    assert told(watch.add(drawn(SIZES[2] - SIZES[0]))) == [("output.margin", False)]


@pytest.mark.parametrize("size", [1, 5, 16, 100, 1000])
def test_the_sizes_of_batches_change_nothing(reference: DriftReference, size: int) -> None:
    first, second = drawn(700), drawn(1800, 3.0)
    whole = {name: np.concatenate([first[name], second[name]]) for name in NAMES}
    one, other = DriftWatch(reference), DriftWatch(reference)
    expected = one.add(whole)
    changes = []
    for start in range(0, 2500, size):
        changes += other.add({name: values[start : start + size] for name, values in whole.items()})
    assert changes == expected
    assert (other.signals, other.drifting) == (one.signals, one.drifting)


def test_the_level_is_shared_among_signals(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    assert chance(watch.smallest_distances["input.mean"], 100, SIZES[-1]) == pytest.approx(FALSE_ALARM / len(NAMES))
    assert min(DriftWatch(reference_of([drawn(7)])).smallest_distances.values()) > 1


def test_more_samples_of_calibration_tell_smaller_shifts() -> None:
    inputs = [{name: values for name, values in drawn(1000).items() if name.startswith("input")} for _ in range(2)]
    watch = DriftWatch(reference_of([{"output.margin": drawn(100)["output.margin"]}, *inputs]))
    assert watch.smallest_distances["input.mean"] < watch.smallest_distances["output.margin"] / 1.5
    small = {name: values + 0.8 for name, values in drawn(SIZES[3]).items()}
    told = {change.signal: change.status.samples for change in watch.add(small)}
    assert told["input.mean"] < told["output.margin"]


def test_what_is_not_finite_and_what_is_not_known_is_left_out(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    signals = drawn(SIZES[0])
    signals["input.mean"][3] = np.nan
    assert watch.add({**signals, "output7.mean": np.ones(SIZES[0])}) == []
    assert set(watch.signals) == {"input.spread", "output.margin"}
    watch.add({"input.mean": np.zeros(1)})
    assert set(watch.signals) == set(NAMES)
    assert np.isfinite([status.mean for status in watch.signals.values()]).all()


def test_a_signal_that_is_no_longer_given_keeps_drifting(reference: DriftReference) -> None:
    watch = DriftWatch(reference)
    watch.add(drawn(SIZES[0], 10.0))
    others = drawn(5000)
    del others["output.margin"]
    assert watch.add(others) == []
    assert watch.drifting == {"output.margin"}
