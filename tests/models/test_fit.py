"""Parameters by the names of others, fitted to a network."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantkit.errors import ModelError
from quantkit.models.fit import fit
from tests.models.weights import VALUES, WANTED, assert_trained


@pytest.mark.parametrize(
    "arrays",
    [
        VALUES,
        {"arg:net0_w": VALUES["net0_w"], "aux:net0_b": VALUES["net0_b"]},
        {"out.weight": VALUES["net0_w"], "out.bias": VALUES["net0_b"]},
        {"net7_w": VALUES["net0_w"], "net7_b": VALUES["net0_b"]},
        {"w": VALUES["net0_w"], "b": VALUES["net0_b"]},
        {name: value.astype(np.float64) for name, value in VALUES.items()},
    ],
)
def test_namings(arrays: dict[str, np.ndarray]) -> None:
    fitted = fit(WANTED, arrays, "x")
    assert_trained(fitted)
    assert all(value.dtype == np.float32 for value in fitted.values())


def test_states_are_zero() -> None:
    wanted = replace(WANTED, states=("state", "cell"))
    assert_trained(fit(wanted, {**VALUES, "state": np.zeros((2, 1, 4))}, "x"))
    with pytest.raises(ModelError, match=r"x holds values of the initial states 'cell', .*export .*states of zero"):
        fit(wanted, {**VALUES, "state": np.zeros((2, 1, 4)), "cell": np.ones((2, 1, 4))}, "x")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"net0_b": None}, "lacks 'net0_b'"),
        ({"net0_x": np.ones(1)}, "holds 'net0_x', which the network lacks"),
        ({"net0_b": np.ones(3, np.float32)}, r"'net0_b' has shape \(3,\), the network wants \(2,\)"),
        ({"net0_b": np.ones(2, np.int8)}, "int8, not floating-point"),
        ({"net0_b": np.array([1, np.nan], np.float32)}, "NaN, infinity"),
        ({"net0_w": None, "out.weight": np.zeros((2, 3)), "out.bias": np.zeros(2)}, "'net0_b' twice"),
    ],
)
def test_weights_that_do_not_fit(change: dict[str, np.ndarray | None], complaint: str) -> None:
    arrays = {name: value for name, value in {**VALUES, **change}.items() if value is not None}
    with pytest.raises(ModelError, match=complaint):
        fit(WANTED, arrays, "x")


def test_constants_stand_for_what_a_file_lacks_and_its_own_come_first() -> None:
    constants = {"net0_b": np.array([5, 6], np.float32)}
    wanted = replace(WANTED, constants=constants)
    without = {"net0_w": VALUES["net0_w"]}
    np.testing.assert_array_equal(fit(wanted, without, "x")["net0_b"], [5, 6])
    assert_trained(fit(wanted, VALUES, "x"))


def test_parameters_of_the_block_that_the_network_does_not_read_are_left_out() -> None:
    wanted = replace(WANTED, unused=frozenset({"classifier.weight"}))
    assert_trained(fit(wanted, {**VALUES, "classifier.weight": np.ones((9, 9))}, "x"))
    with pytest.raises(ModelError, match=r"'classifier\.bias', which the network lacks"):
        fit(wanted, {**VALUES, "classifier.bias": np.ones(9)}, "x")
