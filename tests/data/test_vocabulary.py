"""Token ids as networks read them."""

from __future__ import annotations

import numpy as np
import pytest

from quantkit.data.arrays import arrays
from quantkit.data.batches import batches
from quantkit.data.vocabulary import Vocabulary, token_input
from quantkit.errors import DataError

VOCABULARY = Vocabulary("embedding0", 20)
IDS = np.arange(20).reshape(4, 5)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
def test_ids_are_read_as_float32(dtype: type) -> None:
    (batch,) = batches(arrays(IDS.astype(dtype)), VOCABULARY, (5,), 8)
    assert batch.data.dtype == np.float32
    np.testing.assert_array_equal(batch.data, IDS)


@pytest.mark.parametrize("outside", [20, -1])
def test_ids_beyond_the_vocabulary_are_named(outside: int) -> None:
    ids = IDS.copy()
    ids[2, 3] = outside
    message = rf"sample 2 of arrays has the token id {outside} at step 3, .*'embedding0' \(Embedding\) has 20 tokens"
    with pytest.raises(DataError, match=message):
        list(batches(arrays(ids), VOCABULARY, (5,), 8))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.zeros((4, 4, 3), np.uint8), r"x is uint8 of shape \(4, 4, 3\), .* token ids of shape \(5,\): no images"),
        (np.zeros(5), r"x is float64 .* token ids of shape \(5,\); give int32 or int64"),
        (np.zeros(6, np.int64), r"x has shape \(6,\), .*reads \(5,\); .*pad or cut sequences to 5 steps"),
        (np.full(5, 1.5, np.float32), "not whole"),
        (np.full(5, np.nan, np.float32), "not whole"),
    ],
)
def test_other_input_is_refused(ids: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        token_input(VOCABULARY, ids, (5,), "x")
