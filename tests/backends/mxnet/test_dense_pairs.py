"""Which products MXNet's INT8 dense layers add in 16 bits without VNNI, and that rounding in pairs is exact there."""

from __future__ import annotations

import pytest

from tests.backends.mxnet import dense_pairs_run
from tests.backends.mxnet.test_int8_lstm import told


@pytest.mark.requires("onednn")
@pytest.mark.parametrize("isa", ["AVX512_CORE", "AVX2"])
@pytest.mark.parametrize("lowest", [0, -1])
@pytest.mark.parametrize(("inputs", "batch"), [(24, 1), (7, 3), (36, 40)])
def test_neighbours_are_inputs_2i_and_2i_plus_1(inputs: int, batch: int, lowest: int, isa: str) -> None:
    result = told(str(inputs), str(batch), str(lowest), isa=isa, module=dense_pairs_run)
    assert result["saturating"] == [[first, first + 1] for first in range(0, inputs - 1, 2)]
    assert result["fitting"] == result["bounded"] == 0
    assert result["unbounded"] > 1000
