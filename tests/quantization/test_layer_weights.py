"""The integers of convolutions' and dense layers' weights, by the kind of their rounding."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.host.pair_sums import may_overflow
from quantkit.quantization.layer_weights import RoundingKind, WeightRounding, layer_integers
from quantkit.quantization.weights import engine_integers, per_channel_int8

WEIGHT = np.random.default_rng(0).normal(size=(30, 3, 5)).astype(np.float32)
ROWS = WEIGHT.reshape(30, 15)


def test_the_engine_rounds_as_it_says_whatever_the_scale() -> None:
    integers, scale = layer_integers(WEIGHT, WeightRounding("engine", np.ones(30, np.float32)))
    wanted, steps = engine_integers(WEIGHT)
    np.testing.assert_array_equal(integers, wanted)
    np.testing.assert_array_equal(scale, steps)


def test_rows_have_all_127_steps() -> None:
    integers, scale = layer_integers(WEIGHT, WeightRounding("rows"))
    wanted, steps = per_channel_int8(ROWS)
    np.testing.assert_array_equal(integers, wanted.reshape(WEIGHT.shape))
    np.testing.assert_array_equal(scale, steps)
    assert may_overflow(integers.reshape(30, 15))


def test_pairs_fit_in_16_bits_with_steps_of_less_than_7_bits() -> None:
    integers, scale = layer_integers(WEIGHT, WeightRounding("pairs"))
    assert (integers.shape, integers.dtype, scale.dtype) == (WEIGHT.shape, np.int8, np.float32)
    assert not may_overflow(integers.reshape(30, 15))
    full = per_channel_int8(ROWS)[1]
    assert ((full <= scale) & (scale <= 2 * full)).all()
    assert np.median(scale / full) < 1.5
    # Sums of rows are kept, so a weight may be rounded to its second nearest integer.
    assert (np.abs(integers * scale[:, None, None] - WEIGHT) <= 1.0001 * scale[:, None, None]).all()


@pytest.mark.parametrize("kind", ["rows", "pairs"])
def test_multiples_of_a_scale_keep_their_integers(kind: RoundingKind) -> None:
    random = np.random.default_rng(1)
    integers = random.integers(-127, 128, WEIGHT.shape).astype(np.int8)
    scale = random.uniform(1e-3, 1e-1, 30).astype(np.float32)
    again, same = layer_integers(integers * scale[:, None, None], WeightRounding(kind, scale))
    np.testing.assert_array_equal(again, integers)
    assert again.dtype == np.int8
    assert same is scale
