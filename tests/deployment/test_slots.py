"""Memory that is shared with instances."""

from __future__ import annotations

import os

import numpy as np

from quantkit.deployment.slots import SLOTS, Slots, make_memory, size_of

FORM = 3, (5,), [(2, 7), (1,)]


def both_sides() -> tuple[Slots, Slots]:
    descriptor = make_memory(*FORM)
    try:
        return Slots(descriptor, *FORM), Slots(descriptor, *FORM)
    finally:
        os.close(descriptor)


def test_what_one_writes_the_other_reads() -> None:
    here, there = both_sides()
    arrays = [
        (slots.inputs_of("float32")[slot], *slots.outputs[slot]) for slots in (here, there) for slot in range(SLOTS)
    ]
    written, read = sum(arrays[:SLOTS], ()), sum(arrays[SLOTS:], ())
    assert [array.shape for array in written] == [(3, 5), (3, 2, 7), (3, 1)] * SLOTS
    for number, array in enumerate(written):
        array[:] = number
    for number, array in enumerate(read):
        assert array.dtype == np.float32 and array.ctypes.data % 64 == 0
        np.testing.assert_array_equal(array, number)


def test_integers_take_the_place_of_values() -> None:
    here, there = both_sides()
    for slot in range(SLOTS):
        integers = np.arange(15, dtype=np.int8).reshape(3, 5) - slot
        here.inputs_of("int8")[slot][:] = integers
        np.testing.assert_array_equal(there.inputs_of("int8")[slot], integers)
        assert not any(output.any() for output in there.outputs[slot])


def test_it_is_as_large_as_its_arrays() -> None:
    assert size_of(16, (16,), [(1,)]) == SLOTS * (16 * 16 + 16) * 4
    assert size_of(1, (1,), [(1,)]) == SLOTS * 2 * 64
