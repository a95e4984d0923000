"""Samples that cannot be read or used are left out of their batches, up to a bound, whatever parts are read."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quantkit.data.aggregation import Partial, combined, in_this_process, partial_over
from quantkit.data.arrays import arrays
from quantkit.data.batch_stream import BatchStream
from quantkit.data.batches import Batch, batches
from quantkit.data.dataset import CalibrationDataset
from quantkit.data.left_out import LeftOut, Tally, documents, from_numbers, in_order, to_numbers, told
from quantkit.data.preprocess import Preprocess
from quantkit.data.samples import Sample, Samples, are_labelled, skipping
from quantkit.data.sources import load_data
from quantkit.errors import DataError, SampleError, UserError
from quantkit.progress import silent
from tests.bad_images import digits_folder
from tests.sharding import InParts

SHAPE = (1, 2, 2)
NUMBER = 12


def numbered(bad: Collection[int], skip_bad: int = 0, independent: bool = True) -> Samples:
    """Twelve samples that hold their positions, labelled with twice that; those of ``bad`` cannot be read."""

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            if position in bad:
                raise SampleError(f"sample {position} is damaged", f"sample {position}")
            yield Sample(np.full(SHAPE, position, np.float32), 2 * position, f"sample {position}")

    return skipping(Samples("numbers", read, NUMBER, independent=independent), skip_bad)


def read(samples: Samples, batch_size: int, workers: int = 0) -> tuple[list[list[int]], dict[int, LeftOut]]:
    """The positions in each batch, which the labels must fit, and what was left out."""
    noted: dict[int, LeftOut] = {}
    found = list(batches(samples, None, SHAPE, batch_size, workers=workers, left_out=noted))
    for batch in found:
        assert batch.labels is not None
        assert (batch.labels == 2 * batch.data[:, 0, 0, 0]).all()
        assert batch.names == tuple(f"sample {label // 2}" for label in batch.labels)
    return [batch.data[:, 0, 0, 0].astype(int).tolist() for batch in found], noted


@pytest.mark.parametrize("workers", [0, 3])
def test_batches_keep_their_places_and_labels(workers: int) -> None:
    found, noted = read(numbered({0, 5, 6, 7, 8, 9}, 6), 4, workers)
    assert found == [[1, 2, 3], [4], [10, 11]]
    assert [(each.position, each.name, each.reason) for each in in_order(noted)] == [
        (place, f"sample {place}", f"sample {place} is damaged") for place in (0, 5, 6, 7, 8, 9)
    ]


@pytest.mark.parametrize("workers", [0, 3])
def test_a_batch_of_bad_samples_alone_is_left_out(workers: int) -> None:
    assert read(numbered({4, 5, 6, 7}, 4), 4, workers)[0] == [[0, 1, 2, 3], [8, 9, 10, 11]]
    assert read(numbered(range(NUMBER), NUMBER), 4, workers)[0] == []


def test_a_sample_is_refused_as_ever_unless_some_may_be_left_out() -> None:
    with pytest.raises(SampleError, match=r"^sample 5 is damaged$") as refused:
        read(numbered({5}), 4)
    assert refused.value.sample == "sample 5"
    # Who does not ask what was left out gets all samples.
    with pytest.raises(SampleError, match=r"^sample 5 is damaged$"):
        list(batches(numbered({5}, 3), None, SHAPE, 4))


@pytest.mark.parametrize("workers", [0, 3])
def test_one_more_than_may_be_is_named(workers: int) -> None:
    with pytest.raises(DataError, match=r"sample 9 is damaged; 2 samples before it were left out, and no more may be"):
        read(numbered({1, 4, 9}, 2), 4, workers)
    with pytest.raises(DataError, match="sample 4 is damaged; 1 sample before it was left out"):
        read(numbered({1, 4, 9}, 1), 4, workers)


def test_what_is_wrong_with_the_values_of_one_sample_is_its_own_fault() -> None:
    noted: dict[int, LeftOut] = {}

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        shapes = [SHAPE, (1, 2, 3), SHAPE]
        for position in positions:
            yield Sample(np.full(shapes[position], np.nan if position == 2 else 1, np.float32), None, f"s{position}")

    (batch,) = batches(Samples("few", read, 3, independent=True, skip_bad=2), None, SHAPE, 3, left_out=noted)
    assert batch.names == ("s0",) and [each.name for each in in_order(noted)] == ["s1", "s2"]
    assert "shape (1, 2, 3)" in noted[1].reason and "NaN" in noted[2].reason


@pytest.mark.parametrize(
    ("classes", "message"),
    [(5, "sample 3 has label 6, but the network has 5 classes"), (1, "sample 1 has label 2")],
)
def test_a_wrong_number_of_classes_is_no_fault_of_one_sample(classes: int, message: str) -> None:
    with pytest.raises(DataError, match=message) as refused:
        list(batches(numbered((), 12), None, SHAPE, 4, classes=classes, left_out={}))
    assert not isinstance(refused.value, SampleError)


def test_pixels_without_a_preprocessing_are_no_fault_of_one_sample(tmp_path: Path) -> None:
    samples = skipping(load_data(digits_folder(tmp_path / "digits", 2)), 2)
    with pytest.raises(DataError, match="preprocessing is unknown") as refused:
        list(batches(samples, None, (3, 32, 32), 2, left_out={}))
    assert not isinstance(refused.value, SampleError)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("kind", ["arrays", "loader", "in sequence"])
def test_samples_that_are_read_one_after_another_cannot_be_left_out(kind: str, cached: bool) -> None:
    values = np.ones((4, *SHAPE), np.float32)
    values[2] = np.nan
    samples = {
        "arrays": lambda: arrays(values),
        "loader": lambda: load_data([values[:2], values[2:]]),
        "in sequence": lambda: numbered({2}, independent=False),
    }[kind]()
    why = r"; it cannot be left out \(--skip-bad, skip_bad\), since the samples of .* are read one after another"
    with pytest.raises(DataError, match=rf"(holds NaN|is damaged).*{why}"):
        if cached:
            list(CalibrationDataset(samples, None, SHAPE).skipping(3).batches(2))
        else:
            list(batches(skipping(samples, 3), None, SHAPE, 2, left_out={}))


@dataclass(frozen=True)
class Listing:
    """The positions in each batch."""

    def key(self) -> str:
        return "listing"

    def partial(self, batches: Iterable[Batch]) -> Partial:
        rows = [[*batch.data[:, 0, 0, 0].astype(int).tolist(), -1] for batch in batches]
        assert rows
        return {"rows": np.concatenate(rows)}

    def combine(self, partials: Iterable[Partial]) -> list[int]:
        return [int(each) for part in partials for each in part["rows"]]


def stream(bad: Collection[int], skip_bad: int) -> BatchStream:
    return BatchStream(numbered(bad, skip_bad), None, SHAPE, 2)


@pytest.mark.parametrize("size", [2, 4, 6, 12])
@pytest.mark.parametrize("bad", [{0}, {11}, {0, 1}, {4, 5, 6, 7}, {0, 1, 2, 3, 10, 11}, {1, 3, 5, 7, 9, 11}])
def test_parts_give_what_the_whole_gives(bad: set[int], size: int) -> None:
    whole, parts = stream(bad, 6), stream(bad, 6)
    expected = in_this_process(Listing(), whole, silent, "")
    assert InParts(size)(Listing(), parts, silent, "") == expected
    assert sorted(set(expected) - {-1}) == sorted(set(range(NUMBER)) - bad)
    assert whole.left_out == parts.left_out and set(parts.left_out) == bad


@pytest.mark.parametrize("size", [2, 4, 12])
def test_the_bound_is_that_of_all_parts_together(size: int) -> None:
    with pytest.raises(DataError, match="sample 8 is damaged; 2 samples before it were left out"):
        InParts(size)(Listing(), stream({1, 4, 8}, 2), silent, "")
    with pytest.raises(
        DataError, match=r"none of the samples of numbers that were read can be used; the first: sample 0"
    ):
        InParts(size)(Listing(), stream(range(NUMBER), NUMBER), silent, "")


def test_partial_results_of_a_more_tolerant_run_are_not_taken_for_whole_ones() -> None:
    part = partial_over(Listing(), stream({3}, 1))
    assert combined(Listing(), [part], stream({3}, 1))
    with pytest.raises(DataError, match=r"^sample 3 is damaged$"):
        combined(Listing(), [part], stream({3}, 0))


def test_a_part_without_bad_samples_has_nothing_beside_its_result() -> None:
    assert set(partial_over(Listing(), stream((), 3))) == {"rows"}


def test_all_subsets_of_a_dataset_note_what_they_leave_out() -> None:
    dataset = CalibrationDataset(numbered({3, 7, 9}), None, SHAPE).skipping(3)
    few = dataset.subset(5)
    places = set(few.samples.positions or ())
    assert not dataset.left_out
    kept = [name for batch in few.batches(3) for name in batch.names]
    expected = {3, 7, 9} & places
    assert 0 < len(expected) < 3
    assert {each.position for each in few.left_out} == expected and len(kept) == 5 - len(expected)
    assert dataset.left_out == few.left_out
    assert sum(len(batch.data) for batch in dataset.batches(5)) == 9
    assert [each.position for each in dataset.left_out] == [3, 7, 9]
    assert {each.position for each in few.left_out} == expected
    assert dataset.sha256 == CalibrationDataset(_without({3, 7, 9}), None, SHAPE).sha256


def _without(bad: Collection[int]) -> np.ndarray:
    return np.stack([np.full(SHAPE, place, np.float32) for place in range(NUMBER) if place not in bad])


def test_a_dataset_without_usable_samples_is_told() -> None:
    dataset = CalibrationDataset(numbered(range(NUMBER)), None, SHAPE).skipping(NUMBER)
    with pytest.raises(DataError, match="none of the samples of numbers that were read can be used"):
        list(dataset.batches(4))


def test_a_dataset_itself_stays_strict() -> None:
    dataset = CalibrationDataset(numbered({3}), None, SHAPE)
    tolerant = dataset.skipping(1)
    list(tolerant.batches(4))
    assert len(tolerant.left_out) == 1 and not dataset.left_out and not dataset.skipping(1).left_out
    with pytest.raises(SampleError):
        list(dataset.batches(4))
    with pytest.raises(UserError, match="skip_bad is -1; give a whole number from 0 up"):
        dataset.skipping(-1)


def test_labels_are_seen_at_the_first_sample_that_can_be_read() -> None:
    assert are_labelled(numbered({0, 1}, 2))
    with pytest.raises(SampleError, match="sample 1"):
        are_labelled(numbered({0, 1}, 1))
    assert not are_labelled(numbered(range(NUMBER), NUMBER))


def test_files_of_a_folder(tmp_path: Path) -> None:
    samples = skipping(load_data(digits_folder(tmp_path / "digits", 8, bad={2})), 3)
    (tmp_path / "digits" / "005.png").unlink()
    Image.new("RGB", (32, 31)).save(tmp_path / "digits" / "006.png")
    noted: dict[int, LeftOut] = {}
    preprocess = Preprocess(None, None, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    found = list(batches(samples, preprocess, (3, 32, 32), 3, left_out=noted))
    assert [batch.names for batch in found] == [("000.png", "001.png"), ("003.png", "004.png"), ("007.png",)]
    assert [(each.name, each.position) for each in in_order(noted)] == [("002.png", 2), ("005.png", 5), ("006.png", 6)]


def test_names_of_any_bytes_can_be_stored_and_shown() -> None:
    def read(positions: Iterable[int]) -> Iterator[Sample]:
        raise SampleError("cannot read \udcff.png", "\udcff.png")
        yield

    noted: dict[int, LeftOut] = {}
    assert not list(batches(Samples("x", read, 1, independent=True, skip_bad=1), None, SHAPE, 1, left_out=noted))
    (one,) = from_numbers(to_numbers(in_order(noted)))
    assert one == noted[0] and "\N{REPLACEMENT CHARACTER}.png" in told([one])
    assert json.dumps(documents([one]), ensure_ascii=False).encode()


def test_a_few_are_told_by_name() -> None:
    left_out = [LeftOut(number, f"{number}.png", "no image") for number in range(7)]
    assert told(left_out[:1]) == "1 sample that cannot be read or used was left out: 0.png"
    many = "7 samples that cannot be read or used were left out: 0.png, 1.png, 2.png, 3.png, 4.png and 2 more"
    assert told(left_out) == many


def test_what_is_left_out_is_stored_as_numbers() -> None:
    left_out = (LeftOut(3, "a", "b"), LeftOut(7, "ü\n", ""))
    numbers = to_numbers(left_out)
    assert numbers.dtype == np.uint8 and numbers.ndim == 1
    assert tuple(from_numbers(numbers)) == left_out


def test_a_tally_begins_anew_for_each_pass() -> None:
    noted: dict[int, LeftOut] = {}
    for _ in range(2):
        Tally(1, noted).add(LeftOut(0, "a", "bad"))
    assert len(noted) == 1
