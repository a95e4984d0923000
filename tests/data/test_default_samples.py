"""Which inputs the default samples can stand for."""

from __future__ import annotations

import warnings

import pytest

from quantkit.data.default_samples import DefaultSamplesWarning, are_default, warn_if_unlike
from quantkit.data.sources import load_data


def test_only_the_photographs_are_the_default_samples() -> None:
    assert are_default(load_data("builtin").name)
    assert not are_default(load_data("digits:train").name)


@pytest.mark.parametrize(("shape", "warned"), [((3, 63, 64), True), ((3, 64, 64), False), ((1, 28, 28), True)])
def test_inputs_of_few_pixels_are_warned_of(shape: tuple[int, ...], warned: bool) -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_if_unlike(load_data("builtin").name, shape)
        warn_if_unlike("photos", shape)
    assert [each.category for each in found] == [DefaultSamplesWarning] * warned
    assert all(f"{shape[1]}x{shape[2]} pixels" in str(each.message) for each in found)
