"""Samples of networks with several inputs, from every source: the same vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.data.arrays import arrays_by_name
from quantkit.data.batches import batches
from quantkit.data.joined_inputs import JoinedInput, JoinedInputs, joined_vector, record_of
from quantkit.data.samples import Samples
from quantkit.data.sources import load_data
from quantkit.data.vocabulary import Vocabulary
from quantkit.errors import DataError

NUMBER = 7
LABELS = np.arange(NUMBER) % 3
JOINED = JoinedInputs((JoinedInput("left", (2, 3)), JoinedInput("ids", (4,), Vocabulary("table", 9))))
LEFT = np.random.default_rng(0).normal(size=(NUMBER, 2, 3)).astype(np.float32)
IDS = np.random.default_rng(1).integers(0, 9, (NUMBER, 4))
# Not in the network's order.
GIVEN = {"ids": IDS, "left": LEFT}
VECTORS = np.concatenate([LEFT.reshape(NUMBER, 6), IDS.astype(np.float32)], axis=1)


def vectors(samples: Samples) -> tuple[np.ndarray, np.ndarray | None]:
    """The samples as the network reads them, with their labels."""
    (batch,) = batches(samples, JOINED, (JOINED.size,), 2 * NUMBER)
    return batch.data, batch.labels


@pytest.mark.parametrize("labelled", [True, False])
def test_arrays_files_and_batches_give_the_same(labelled: bool, tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **GIVEN, **({"y": LABELS} if labelled else {}))
    halves = [{name: values[part] for name, values in GIVEN.items()} for part in (slice(0, 4), slice(4, None))]
    pairs = list(zip(halves, (LABELS[:4], LABELS[4:])))
    for source in (tmp_path / "data.npz", (GIVEN, LABELS) if labelled else GIVEN, pairs if labelled else halves):
        data, labels = vectors(load_data(source))
        np.testing.assert_array_equal(data, VECTORS)
        np.testing.assert_equal(labels, LABELS if labelled else None)


@pytest.mark.usefixtures("engine")
def test_an_iterator_of_mxnet_names_its_inputs() -> None:
    import mxnet as mx

    iterator = mx.io.NDArrayIter({name: values.astype(np.float32) for name, values in GIVEN.items()}, LABELS, 4)
    data, labels = vectors(load_data(iterator))
    np.testing.assert_array_equal(data, VECTORS)
    np.testing.assert_array_equal(labels, LABELS)


def test_positions_are_read_from_files_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", **GIVEN)
    samples = list(load_data(tmp_path / "data.npz").read((2, 5)))
    assert [sample.name for sample in samples] == ["sample 2 of data.npz", "sample 5 of data.npz"]
    np.testing.assert_array_equal([sample.image["ids"] for sample in samples], IDS[[2, 5]])


def test_the_vector_itself_is_taken() -> None:
    np.testing.assert_array_equal(joined_vector(JOINED, VECTORS[0], "it"), VECTORS[0])


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"left": LEFT[0, 0]}, r"input 'left' of it .*shape \(3,\)"),
        ({"left": LEFT[0].astype(np.float64)}, "input 'left' of it .*float64"),
        ({"left": np.full((2, 3), np.inf, np.float32)}, "input 'left' of it holds NaN or infinite values"),
        ({"ids": IDS[0] + 9}, "input 'ids' of it has the token id"),
        ({"left": np.zeros((2, 3), np.uint8)}, "input 'left' of it is uint8; several inputs are not preprocessed"),
    ],
)
def test_values_that_do_not_fit(changed: dict[str, np.ndarray], told: str) -> None:
    record = record_of({"ids": IDS[0], "left": LEFT[0], **changed})
    with pytest.raises(DataError, match=told):
        joined_vector(JOINED, record, "it")


def test_vectors_that_do_not_fit() -> None:
    with pytest.raises(
        DataError, match="but the network reads 2 inputs, 'left' 2x3 and 'ids' 4; give an array for each"
    ):
        joined_vector(JOINED, VECTORS[0, 1:], "it")
    with pytest.raises(DataError, match="it holds NaN or infinite values"):
        joined_vector(JOINED, np.full(JOINED.size, np.nan, np.float32), "it")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "arrays holds no arrays; give one for each of the network's inputs"),
        ({"left": LEFT, "ids": IDS[:3]}, "arrays has 7 samples in 'left', but 3 in 'ids'; give as many in each"),
        ({"left": LEFT[:, :, :0], "ids": IDS}, "'left' of arrays"),
        ({"left": LEFT, 3: IDS}, "arrays has the key 3; give arrays by the names of the network's inputs"),
    ],
)
def test_arrays_that_do_not_belong_together(given: dict[Any, np.ndarray], told: str) -> None:
    with pytest.raises(DataError, match=told):
        load_data(given)


def test_labels_are_one_for_each_sample() -> None:
    with pytest.raises(DataError, match="y of arrays has shape"):
        arrays_by_name(GIVEN, LABELS[:3])


def test_a_missing_array_is_named_and_others_do_not_matter() -> None:
    with pytest.raises(DataError, match="it has no array 'ids', and the network reads 'left' 2x3 and 'ids' 4"):
        joined_vector(JOINED, record_of({"left": LEFT[0]}), "it")
    more = record_of({"other": IDS[0], "left": LEFT[0], "ids": IDS[0]})
    np.testing.assert_array_equal(joined_vector(JOINED, more, "it"), VECTORS[0])


@pytest.mark.parametrize("token", [-1.0, 0.5, 9.0])
def test_the_tokens_of_a_vector_are_checked(token: float) -> None:
    vector = VECTORS[0].copy()
    vector[-1] = token
    with pytest.raises(DataError, match="input 'ids' of it"):
        joined_vector(JOINED, vector, "it")


def test_a_file_without_x_has_an_array_for_each_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", images=LEFT, labels=LABELS)
    with pytest.raises(DataError, match=r"input 'labels' of data.npz is int64 of shape \(7,\); give float32"):
        load_data(tmp_path / "data.npz")


def test_inputs_may_have_the_names_of_samples_and_labels(tmp_path: Path) -> None:
    joined = JoinedInputs((JoinedInput("x", (2, 3)), JoinedInput("y", (4,))))
    numbers = IDS.astype(np.float32)
    np.savez(tmp_path / "both.npz", x=LEFT, y=numbers)
    (batch,) = batches(load_data(tmp_path / "both.npz"), joined, (10,), NUMBER)
    np.testing.assert_array_equal(batch.data, VECTORS)
    assert batch.labels is None
    np.savez(tmp_path / "more.npz", x=LEFT, z=numbers, y=LABELS)
    first = JoinedInputs((JoinedInput("x", (2, 3)), JoinedInput("z", (4,))))
    (batch,) = batches(load_data(tmp_path / "more.npz"), first, (10,), NUMBER)
    np.testing.assert_array_equal(batch.data, VECTORS)
    np.testing.assert_array_equal(batch.labels, LABELS)


def test_a_network_with_one_input_reads_x_of_several_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "more.npz", x=LEFT, mask=LEFT, names=np.array(["a"] * NUMBER), y=LABELS)
    (batch,) = batches(load_data(tmp_path / "more.npz"), None, (2, 3), NUMBER)
    np.testing.assert_array_equal(batch.data, LEFT)
    np.savez(tmp_path / "wrong.npz", x=LEFT, y=np.eye(NUMBER, dtype=np.float32))
    with pytest.raises(DataError, match=r"the arrays 'x', 'y', but the network reads one input; .* class indices 'y'"):
        list(batches(load_data(tmp_path / "wrong.npz"), None, (2, 3), NUMBER))


def test_names_that_no_input_has() -> None:
    with pytest.raises(DataError, match="has the key ''; give arrays by the names"):
        load_data({"": LEFT, "ids": IDS})
    with pytest.raises(DataError, match="the arrays '' make no sample of several inputs"):
        record_of({"": LEFT[0]})
