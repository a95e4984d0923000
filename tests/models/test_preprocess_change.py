"""Preprocessing that a user gives: what becomes of the card's, and which values are refused."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from quantkit.data.preprocess import Preprocess
from quantkit.errors import ModelError, UserError
from quantkit.models.model import Model, Source
from quantkit.models.preprocess_change import (
    PreprocessChange,
    PreprocessChangedWarning,
    with_preprocess,
)
from tests.networks import residual_v1

KNOWN = Preprocess(20, 16, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), 127.5, True)


def model(preprocess: Preprocess | None) -> Model:
    return Model("net", residual_v1(), (3, 16, 16), preprocess, Source("net", "random"))


def test_where_nothing_is_known_what_is_not_said_is_left_out() -> None:
    change = PreprocessChange(resize=18, crop=16, mean=(0.5, 0.5, 0.5))
    found = with_preprocess(model(None), change).preprocess
    assert found == Preprocess(18, 16, (0.5, 0.5, 0.5), (1, 1, 1), 255, False)


def test_single_steps_are_replaced_and_both_values_told() -> None:
    with pytest.warns(
        PreprocessChangedWarning,
        match=r"^the preprocessing of net uses resize 16, mean 0.5,0.5,0.5 as given, .* resize 20",
    ):
        found = with_preprocess(model(KNOWN), PreprocessChange(resize=16, crop=16, mean=(0.5, 0.5, 0.5))).preprocess
    assert found == Preprocess(16, 16, (0.5, 0.5, 0.5), (0.4, 0.5, 0.6), 127.5, True)


@pytest.mark.parametrize("change", [PreprocessChange(), PreprocessChange(20, 16, rotate180=True)])
def test_what_agrees_needs_no_word(change: PreprocessChange) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert with_preprocess(model(KNOWN), change).preprocess == KNOWN


def test_a_step_can_be_taken_back() -> None:
    with pytest.warns(PreprocessChangedWarning, match="rotate180 false as given, where its card or file says rotate18"):
        found = with_preprocess(model(KNOWN), PreprocessChange(rotate180=False)).preprocess
    assert found is not None and not found.rotate180


def test_a_crop_must_be_what_the_network_reads() -> None:
    with pytest.raises(ModelError, match=r"crops to 12x12 pixels, but the network reads 16x16; crop to 16"):
        with_preprocess(model(None), PreprocessChange(crop=12))
    wide = replace(model(None), input_shape=(3, 16, 32))
    with pytest.raises(ModelError, match=r"but the network reads 16x32; give --fit stretch or letterbox \(fit=\) inst"):
        with_preprocess(wide, PreprocessChange(crop=16))


@pytest.mark.parametrize(
    "values",
    [
        {"resize": 0},
        {"crop": -1},
        {"crop": 1 << 31},
        {"mean": (0.0, 1.0)},
        {"mean": (0.0, 1.0, float("inf"))},
        {"std": (1.0, 0.0, 1.0)},
        {"std": (1.0, float("nan"), 1.0)},
        {"scale": 0.0},
        {"scale": float("inf")},
        {"resize": "a"},
        {"crop": 16.5},
        {"crop": True},
        {"mean": 3},
        {"mean": "abc"},
        {"mean": (10**400, 0, 0)},
        {"std": (1.0, "1", 1.0)},
        {"scale": "1"},
        {"rotate180": 1},
        {"fit": "squeeze"},
    ],
)
def test_values_that_no_step_can_have(values: dict[str, Any]) -> None:
    for made in (PreprocessChange, Preprocess):
        with pytest.raises(UserError, match=next(iter(values))):
            made(**values)


def test_numbers_of_numpy_are_numbers() -> None:
    channels: Any = np.array([1.0, 2.0, 3.0])
    change = PreprocessChange(resize=np.int64(20), mean=channels, scale=np.float32(2))  # type: ignore[arg-type]
    assert change == PreprocessChange(20, mean=(1.0, 2.0, 3.0), scale=2.0)
    assert type(change.resize) is int and type(change.scale) is float


def test_the_steps_in_words() -> None:
    assert KNOWN.text == "short side to 20, centre 16x16, turned by 180°, / 127.5, mean 0.1 0.2 0.3, std 0.4 0.5 0.6"


def test_a_fit_takes_the_place_of_resize_and_crop_and_they_of_it() -> None:
    with pytest.warns(PreprocessChangedWarning, match="uses fit stretch as given, where .* says fit none"):
        fitted = with_preprocess(model(KNOWN), PreprocessChange(fit="stretch"))
    assert fitted.preprocess == Preprocess(None, None, KNOWN.mean, KNOWN.std, 127.5, True, "stretch")
    with pytest.warns(PreprocessChangedWarning, match="resize 20, crop 16 as given"):
        cropped = with_preprocess(fitted, PreprocessChange(resize=20, crop=16))
    assert cropped.preprocess == KNOWN
    assert "stretched to the input, turned" in fitted.preprocess.text
