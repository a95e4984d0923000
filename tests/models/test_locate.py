"""What the name or path of a network stands for."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest

from quantkit.errors import ModelError
from quantkit.models.card import Card
from quantkit.models.locate import locate


def test_nearest_names_are_offered() -> None:
    with pytest.raises(ModelError, match=r"did you mean.*mobilenet"):
        locate("mobilnet")


@pytest.mark.parametrize("crop", [6, 8, None])
@pytest.mark.parametrize("where", ["[preprocess]", "[sources.preprocess]"])
def test_a_card_cuts_what_its_network_reads(tmp_path: Path, crop: Optional[int], where: str) -> None:
    card = tmp_path / "net.toml"
    source = '[[sources]]\nkind = "gluoncv"\nlocation = "alexnet-44335d1f"\n'
    size = "" if crop is None else f"crop = {crop}"
    card.write_text(
        'name = "net"\nnetwork = "alexnet"\ninput_shape = [3, 8, 8]\nclasses = 2\n'
        f"{source}{where}\nmean = [1, 1, 1]\nstd = [1, 1, 1]\n{size}\n"
    )
    if crop == 6:
        with pytest.raises(ModelError, match=r"net\.toml: under \[preprocess\] crop = 6 gives 6x6 .* needs 8x8"):
            locate(str(card))
    else:
        assert isinstance(locate(str(card)), Card)
