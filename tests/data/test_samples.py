"""Choosing from sets of samples."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count

import numpy as np
import pytest

from quantkit.data.samples import Sample, Samples, label_of, picked, take
from quantkit.errors import DataError, UserError


def numbered(size: int, known: bool = True, any_order: bool = False) -> Samples:
    """Samples whose labels are their positions."""

    def one(position: int) -> Sample:
        return Sample(np.zeros((1, 1, 3), np.uint8), position, str(position))

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        return picked(map(one, range(size)), positions)

    return Samples("numbers", read, size if known else None, any_order)


def labels(samples: Samples) -> list[int | None]:
    return [sample.label for sample in samples]


def test_all_are_read_in_order_and_again() -> None:
    samples = numbered(7)
    assert labels(samples) == labels(samples) == list(range(7))
    assert len(samples) == 7


def test_taken_samples_are_a_fixed_random_choice_in_order() -> None:
    chosen = labels(take(numbered(1000), 50))
    assert chosen == sorted(set(chosen)) and len(chosen) == 50  # type: ignore[type-var]
    assert chosen == labels(take(numbered(1000), 50))
    assert chosen != labels(take(numbered(1000), 50, seed=1))
    assert set(chosen) <= set(labels(take(numbered(1000), 51)))
    assert len(take(numbered(1000), 50)) == 50
    assert labels(take(numbered(9), 9)) == list(range(9))


def test_the_choice_from_a_set_sorted_by_class_has_all_classes() -> None:
    classes = Counter(label // 200 for label in labels(take(numbered(2000), 100)) if label is not None)
    assert len(classes) == 10
    assert max(classes.values()) < 25


def test_the_choice_is_unbiased() -> None:
    hits = Counter(label for seed in range(600) for label in labels(take(numbered(20), 5, seed)))
    # 150 expected, standard deviation 11.
    assert all(100 < hits[label] < 200 for label in range(20))


def test_the_choice_takes_memory_for_what_is_chosen() -> None:
    """A small archive can claim millions of samples."""
    tracemalloc.start()
    assert len(take(numbered(300_000), 10)) == 10
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("samples", [numbered(20, any_order=True), numbered(20, known=False)])
def test_where_any_order_will_do_the_first_are_taken(samples: Samples) -> None:
    assert labels(take(samples, 5)) == list(range(5))
    assert len(take(samples, 5)) == 5


@pytest.mark.parametrize("known", [True, False])
def test_more_than_there_are(known: bool) -> None:
    with pytest.raises(DataError, match="21 samples were requested, but numbers holds 20"):
        list(take(numbered(20, known), 21))
    assert len(labels(take(numbered(20, known), 20))) == 20


@pytest.mark.parametrize("number", [0, -1, 2.0, "3", True])
def test_what_is_no_number_of_samples(number: int) -> None:
    with pytest.raises(UserError, match=r"num_samples is .*; give a whole number from 1 up"):
        take(numbered(20), number)


def test_nothing_can_be_taken_from_an_empty_set() -> None:
    with pytest.raises(DataError, match="numbers gave no samples"):
        take(numbered(0), 5)


@pytest.mark.parametrize("known", [True, False])
def test_an_empty_set_is_an_error(known: bool) -> None:
    with pytest.raises(DataError, match="numbers gave no samples"):
        list(numbered(0, known))


def test_the_length_of_a_stream_is_unknown() -> None:
    with pytest.raises(TypeError, match="is unknown until all are read"):
        len(numbered(3, known=False))


def test_a_choice_can_be_narrowed_but_not_widened() -> None:
    chosen = take(numbered(20), 10)
    assert labels(take(chosen, 5)) == labels(chosen)[:5]
    with pytest.raises(DataError, match="holds 10"):
        take(chosen, 11)


def test_an_endless_stream_is_read_no_further_than_needed() -> None:
    def one(position: int) -> Sample:
        assert position <= 5
        return Sample(np.zeros(1), position, "")

    assert [sample.label for sample in picked(map(one, count()), [2, 5])] == [2, 5]


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (3.0, 3), (np.float32(7), 7), (np.uint8(9), 9), (0, 0)])
def test_labels_are_whole_numbers(value: object, expected: int) -> None:
    assert label_of(value, "x") == expected


@pytest.mark.parametrize("value", [-1, 2**31, 1e30, "9" * 5000, 0.5, float("nan"), float("inf"), "cat", None, [1, 2]])
def test_other_labels_are_errors(value: object) -> None:
    with pytest.raises(DataError, match=r"label .* of x"):
        label_of(value, "x")
