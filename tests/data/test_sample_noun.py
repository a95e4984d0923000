from __future__ import annotations

import pytest

from quantkit.data.sample_noun import sample_noun
from quantkit.units import counted


@pytest.mark.parametrize(
    ("shape", "said"),
    [((3, 8, 8), "1 image, 2 images"), ((6,), "1 sample, 2 samples"), ((6, 5), "1 sample, 2 samples")],
)
def test_only_inputs_of_channels_height_and_width_are_images(shape: tuple[int, ...], said: str) -> None:
    noun = sample_noun(shape)
    assert f"{counted(1, noun)}, {counted(2, noun)}" == said
