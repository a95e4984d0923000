"""What the process holds that starts instances, and by what they find the samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Optional

import numpy as np
import pytest

from quantkit.data.samples import Sample, Samples
from quantkit.data.sources import load_data
from quantkit.errors import UserError
from quantkit.models.dataset import CalibrationData
from quantkit.training.config import TrainingConfig
from quantkit.training.data_parallel import DataParallel
from quantkit.training.finetune import trainable_classifier
from quantkit.training.loop_inputs import LoopInputs
from tests.training.conftest import coloured, stored, tiny

ALONE, TWO = (DataParallel(instances, None, "dist_sync", False, None) for instances in (None, 2))


def counted(samples: Samples, taken: list[int]) -> Samples:
    """Samples that note which of them are read."""

    def read(positions: Iterable[int]) -> Iterator[Sample]:
        for position in positions:
            taken.append(position)
            yield from samples.read((position,))

    return replace(samples, read=read)


@pytest.mark.parametrize(("parallel", "reads"), [(ALONE, [24, 0, 24]), (TWO, [0, 48, 48])])
def test_samples_are_held_by_those_that_train(parallel: DataParallel, reads: list[int], tmp_path: Path) -> None:
    """How many are read before they are asked for, and in two passes over each of both sets."""
    taken: list[int] = []
    source = counted(load_data(stored(tmp_path / "coloured.npz", 24)), taken)
    train, held = parallel.training_samples(source), parallel.validation_samples(tiny(), source, 0)
    assert held is not None
    found = [len(taken)]
    for samples in (train, held.samples):
        taken.clear()
        assert len([*samples]) == len([*samples]) == 24
        found.append(len(taken))
    assert found == reads


def identity(parallel: DataParallel, train: str, held: Optional[CalibrationData]) -> str:
    model, config = tiny(), TrainingConfig(batch_size=8)
    samples = parallel.training_samples(load_data(train)), parallel.validation_samples(model, held, 0)
    return LoopInputs(*samples, config, 0, None).loop(model, trainable_classifier(model, config)).identity


def test_a_training_is_the_same_whoever_holds_the_samples(tmp_path: Path) -> None:
    """Samples are compared from the first to the last, also of those that are read one after another."""
    train, held = (stored(tmp_path / f"{name}.npz", 50) for name in ("train", "held"))
    before = identity(ALONE, train, held)
    assert identity(TWO, train, held) == before
    arrays = dict(np.load(train))
    arrays["x"][-1] = 0
    np.savez(train, **arrays)
    assert identity(TWO, train, held) == identity(ALONE, train, held) != before


def test_instances_are_given_names(tmp_path: Path) -> None:
    assert ALONE.validation_samples(tiny(), None, 0) is TWO.validation_samples(tiny(), None, 0) is None
    part = replace(load_data(stored(tmp_path / "part.npz", 24)), positions=range(8))
    for samples in (coloured(24), part):
        assert len(ALONE.training_samples(samples)) == len(samples)
        with pytest.raises(UserError, match="is not the whole of a folder or a file; give one, or no instances"):
            TWO.training_samples(samples)
        with pytest.raises(UserError, match="is not the whole of a folder or a file; give one, or no instances"):
            TWO.validation_samples(tiny(), samples, 0)
