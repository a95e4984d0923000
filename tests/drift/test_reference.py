"""The file of signals: what was written is read, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quantkit.drift.reference import DriftReference, read_reference, reference_bytes, reference_of
from quantkit.errors import DataError

PARTS = [
    {"output.mean": np.array([3.0, 1.0]), "input.mean": np.array([0.5, 0.25])},
    {"output.mean": np.array([2.0]), "input.mean": np.array([0.125])},
]


@pytest.fixture
def reference() -> DriftReference:
    return reference_of(PARTS)


def test_batches_make_a_reference_that_is_read_again(reference: DriftReference, tmp_path: Path) -> None:
    path = tmp_path / "signals.npz"
    path.write_bytes(reference_bytes(reference))
    again = read_reference(path)
    assert reference_bytes(again) == reference_bytes(reference)
    assert again.samples == 3
    np.testing.assert_array_equal(again.signals["output.mean"], [1.0, 2.0, 3.0])
    assert again.means == {"input.mean": pytest.approx(0.875 / 3), "output.mean": 2.0}
    assert again.spreads["output.mean"] == pytest.approx(np.std([1, 2, 3]))


def test_signals_of_inputs_may_be_of_more_samples(tmp_path: Path) -> None:
    path = tmp_path / "signals.npz"
    more = reference_of([{"output.mean": PARTS[0]["output.mean"]}, *({"input.mean": np.arange(9.0)} for _ in range(2))])
    path.write_bytes(reference_bytes(more))
    again = read_reference(path)
    assert again.samples == 18
    assert {name: len(values) for name, values in again.signals.items()} == {"input.mean": 18, "output.mean": 2}


def test_changes_of_no_account_follow_from_the_spread_within_samples() -> None:
    values = {"input.spread": np.array([1.0, 3.0]), "input.mean": np.zeros(2), "input.beyond": np.zeros(2)}
    features = {"output.mean": np.array([-5.0, 1.0])}
    tolerances = reference_of([{**values, **features}]).tolerances
    assert tolerances["input.beyond"] == 0.001
    assert tolerances["input.mean"] == 0.02
    assert tolerances["input.spread"] == pytest.approx(0.02, rel=1e-3)
    # Without a spread within samples, of that from one to the other.
    assert tolerances["output.mean"] == pytest.approx(0.03, rel=1e-3)


@pytest.mark.parametrize(("share", "samples", "expected"), [(1.0, 3, [1, 1, 1]), (0.99, 100, [0] + [1] * 99)])
def test_agreement_is_a_share_of_samples(
    reference: DriftReference, share: float, samples: int, expected: list[int], tmp_path: Path
) -> None:
    more = reference.with_agreement(share, samples)
    assert more.signals["output.agreement"].tolist() == expected
    assert set(more.signals) == {*reference.signals, "output.agreement"}
    (tmp_path / "signals.npz").write_bytes(reference_bytes(more))
    with pytest.raises(DataError, match=r"'output\.agreement', which is no signal"):
        read_reference(tmp_path / "signals.npz")


def test_a_number_of_samples_without_bound_takes_no_memory(reference: DriftReference) -> None:
    assert len(reference.with_agreement(0.5, 1 << 53).signals["output.agreement"]) == 10_000


def test_signals_that_are_not_finite_are_left_out() -> None:
    assert set(reference_of([{**PARTS[0], "output1.mean": np.array([1.0, np.inf])}]).signals) == set(PARTS[0])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "0 arrays"),
        ({f"input.feature{place}": np.zeros(2, np.float32) for place in range(129)}, "129 arrays"),
        ({"../input": np.zeros(2, np.float32)}, "no signal"),
        ({"input.mean\n": np.zeros(2, np.float32)}, "no signal"),
        ({"input.mean": np.zeros(2)}, "float64"),
        ({"input.mean": np.zeros((2, 2), np.float32)}, "shape"),
        ({"input.mean": np.zeros(0, np.float32)}, "shape"),
        ({"input.mean": np.array([np.nan], np.float32)}, "NaN"),
    ],
)
def test_anything_else_is_refused(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    path = tmp_path / "signals.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        read_reference(path)
