"""Training on several instances: the same result, whatever becomes of them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from quantkit.benchmark.placement.placement import place
from quantkit.data.sources import load_data
from quantkit.errors import DataError, UserError
from quantkit.host.topology import read_topology
from quantkit.training.config import TrainingConfig
from quantkit.training.epoch import Epoch
from quantkit.training.feed import Feed
from quantkit.training.finetune import FineTuned, finetune
from quantkit.training.launch import SlowExchangeWarning
from quantkit.training.machines import Machines
from quantkit.training.network import TrainedNetwork
from quantkit.training.team import Team
from tests.networks import DATA, Builder
from tests.processes import started_by_this
from tests.training.conftest import CLASSES, SIZE, coloured, tiny

CONFIG = TrainingConfig(epochs=3, batch_size=16, learning_rate=1.0, mixup=0.2)
TWO = "2x1:smt"

pytestmark = [pytest.mark.timeout(300), pytest.mark.requires("two-cpus")]


def trained(data: str, config: TrainingConfig = CONFIG, normalized: bool = True, **options: Any) -> FineTuned:
    return finetune(tiny(normalized=normalized), data, data, config=config, workers=1, **{"instances": TWO, **options})


def params(result: FineTuned) -> dict[str, np.ndarray]:
    return dict(result.model.graph.params)


@pytest.fixture(scope="module")
def undisturbed(data: str) -> FineTuned:
    return trained(data)


def test_two_instances_compute_what_one_does(data: str) -> None:
    """Without batch normalization, whose statistics are those of an instance's own samples."""
    one, two = (trained(data, normalized=False, instances=instances) for instances in (None, TWO))
    for name, value in params(one).items():
        # Sums of float32 in another order, over twelve steps.
        assert params(two)[name] == pytest.approx(value, rel=1e-4, abs=1e-5)
    assert [epoch.loss for epoch in two.epochs] == pytest.approx([epoch.loss for epoch in one.epochs], rel=1e-4)
    assert [epoch.validated.samples for epoch in two.epochs if epoch.validated] == [64] * 3
    assert [epoch.samples for epoch in two.epochs] == [64] * 3


def test_gradients_of_more_than_one_exchange_are_added_up(data: str) -> None:
    """The weights of the hidden layer have 1.2 MB."""
    b = Builder()
    hidden = b.relu("active", b.dense("hidden", b.op("Flatten", "flat", DATA), 3 * SIZE * SIZE, 1600))
    model = replace(tiny(), graph=b.graph(b.dense("dense", hidden, 1600, CLASSES)))
    once = replace(CONFIG, epochs=1, learning_rate=0.1)
    one, two = (params(finetune(model, data, config=once, workers=1, instances=number)) for number in (None, TWO))
    for name, value in one.items():
        # Sums of float32 in another order, over four steps.
        assert two[name] == pytest.approx(value, rel=1e-4, abs=1e-5)
        assert not np.array_equal(value, model.graph.params[name])


@pytest.mark.long
def test_three_instances_compute_what_one_does(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them share a processor where there are no three."""
    first, second = place(TWO, read_topology())
    monkeypatch.setattr("quantkit.training.data_parallel.place", lambda *_: [first, second, first])
    config = replace(CONFIG, batch_size=12)
    one, three = (trained(data, config, normalized=False, instances=instances) for instances in (None, 3))
    for name, value in params(one).items():
        # Sums of float32 in another order, over fifteen steps.
        assert params(three)[name] == pytest.approx(value, rel=1e-4, abs=1e-5)
    assert [epoch.validated.samples for epoch in three.epochs if epoch.validated] == [64] * 3


def test_one_instance_needs_nobody(data: str) -> None:
    config = replace(CONFIG, epochs=1)
    here, apart = (trained(data, config, instances=instances) for instances in (None, "1x1"))
    for name, value in params(apart).items():
        # The engine adds up in another order where a process may use fewer processors.
        assert params(here)[name] == pytest.approx(value, rel=1e-5, abs=1e-6)


def test_statistics_are_those_of_all_instances(data: str, undisturbed: FineTuned) -> None:
    assert not left_running()
    still = replace(CONFIG, learning_rate=1e-12, epochs=1)
    alone, shared = (params(trained(data, still, instances=instances)) for instances in (None, TWO))
    # The mean of a batch is that of its halves' means, its variance a little more than that of their variances.
    assert shared["normal_moving_mean"] == pytest.approx(alone["normal_moving_mean"], rel=1e-4, abs=1e-5)
    assert shared["normal_moving_var"] == pytest.approx(alone["normal_moving_var"], rel=0.1)
    one = trained(data, instances=None)
    first, second = (result.epochs[-1].validated for result in (one, undisturbed))
    assert first is not None and second is not None and abs(first.top1 - second.top1) < 0.1


def left_running() -> list[str]:
    return [command for _, command in started_by_this() if "quantkit.training" in command]


def test_a_training_that_is_done_starts_nothing(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One ends with its last epoch, one early."""
    early = replace(CONFIG, patience=1, learning_rate=1e-30)
    paths = [(replace(CONFIG, epochs=1), tmp_path / "whole"), (early, tmp_path / "early")]
    done = [trained(data, config, normalized=False, instances=None, checkpoint=path) for config, path in paths]
    assert [len(result.epochs) for result in done] == [1, 2]

    def fail(*_: object) -> None:
        raise AssertionError("something was started")

    for kind in (Team, TrainedNetwork):
        monkeypatch.setattr(kind, "__init__", fail)
    monkeypatch.setattr(Feed, "epochs", fail)
    for result, (config, path) in zip(done, paths):
        for options in ({"instances": None}, {}, {"machines": Machines(2, 1, "127.0.0.1:9000")}):
            again = trained(data, config, normalized=False, checkpoint=path, **options)
            assert again.epochs == result.epochs and again.resumed == len(result.epochs)
            assert all(np.array_equal(params(again)[name], value) for name, value in params(result).items())


@pytest.mark.long
def test_what_is_learned_is_what_is_exchanged(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quantkit.training.launch._LARGE", 100)
    config = replace(CONFIG, epochs=1, freeze=("body",))
    # The dense layer's weights, 3 rows of 8, and biases.
    with pytest.warns(SlowExchangeWarning, match=r"exchange 0\.1 kB of gradients in each step"):
        trained(data, config)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SlowExchangeWarning)
        trained(data, config, instances="1x1")


def test_what_instances_cannot_share_is_refused(data: str) -> None:
    with pytest.raises(UserError, match="a batch of 15 cannot be shared by 2 instances; give a multiple of them"):
        trained(data, replace(CONFIG, batch_size=15))
    with pytest.raises(UserError, match="coloured is not the whole of a folder or a file; give one, or no instances"):
        finetune(tiny(), coloured(64), config=CONFIG, instances=TWO)
    part = replace(load_data(data), positions=range(32))
    with pytest.raises(UserError, match="is not the whole of a folder or a file; give one, or no instances"):
        finetune(tiny(), part, config=CONFIG, instances=TWO)
    with pytest.raises(UserError, match="gives each of 2 instances an odd number; give another --batch-size"):
        trained(data, replace(CONFIG, batch_size=6))
    with pytest.raises(UserError, match="there is no placement '0'"):
        trained(data, instances=0)
    with pytest.raises(UserError, match="there is no placement 'many'"):
        trained(data, instances="many")


@pytest.mark.long
def test_a_training_goes_on_with_another_number_of_instances(data: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"

    def interrupt(epoch: Epoch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(data, normalized=False, checkpoint=path, on_epoch=interrupt)
    assert not left_running()
    on_one = trained(data, normalized=False, checkpoint=path, instances=None)
    assert on_one.resumed == 1 and len(on_one.epochs) == 3
    for name, value in params(trained(data, normalized=False)).items():
        # Sums of float32 in another order, over eight steps.
        assert params(on_one)[name] == pytest.approx(value, rel=1e-4, abs=1e-5)


def test_instances_end_early_together(data: str) -> None:
    """A rate this small changes no parameter, so that the first epoch stays the best."""
    result = trained(data, replace(CONFIG, patience=1, learning_rate=1e-30), normalized=False)
    assert [epoch.number for epoch in result.epochs] == [1, 2] and result.best == 1 and result.stopped_early
    assert not left_running()


@pytest.mark.long
def test_samples_that_instances_leave_out_are_told_once_by_all_that_go_on(tmp_path: Path) -> None:
    for number, sample in enumerate(coloured(33)):
        folder = tmp_path / "images" / f"class {sample.label}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample.image).save(folder / f"{number:02}.png")
    bad = tmp_path / "images" / "class 1" / "13.png"
    bad.write_bytes(bad.read_bytes()[:60])
    data, options = str(tmp_path / "images"), {"config": replace(CONFIG, epochs=2), "instances": TWO, "workers": 1}
    with pytest.raises(DataError, match=r"13\.png"):
        finetune(tiny(), data, **options)
    for resumed in (0, 2):
        result = finetune(tiny(), data, data, skip_bad=1, checkpoint=tmp_path / "checkpoint", **options)
        assert result.resumed == resumed and len(result.epochs) == 2
        for left_out in (result.left_out, result.validation_left_out):
            assert [Path(each.name).name for each in left_out] == ["13.png"]
