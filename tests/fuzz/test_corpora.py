"""What fuzzing found is read again: each input ends in a result or in an error of quantkit's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.corpora import FOLDER, kept
from tests.fuzz.targets import TARGETS, Target
from tests.loaders import placed
from tests.test_damaged_files import outcome


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_kept_inputs(target: Target, tmp_path: Path) -> None:
    inputs = kept(target.name)
    assert inputs
    different = {loader.load: loader for loader in target.loaders}
    for content in inputs:
        for loader in different.values():
            outcome(loader, placed(loader, tmp_path, content))


def test_the_corpora_are_small_and_all_belong_to_a_target() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == TARGETS.keys()
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2**20
