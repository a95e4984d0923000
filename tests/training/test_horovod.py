"""Instances that exchange gradients through Horovod."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.errors import DataError, UserError
from quantkit.training.finetune import FineTuned
from quantkit.training.launch import KVStoreName
from quantkit.training.quantization_aware import train_quantized
from tests.requirements import requires
from tests.training.conftest import coloured, tiny
from tests.training.test_instances import CONFIG, TWO, left_running, params, trained
from tests.training.test_lost_instances import trained_with_one_lost
from tests.training.test_quantization_aware import CONFIG as INT8_CONFIG

requires("horovod")

pytestmark = [pytest.mark.timeout(300), pytest.mark.requires("two-cpus")]


@pytest.fixture(scope="module")
def undisturbed(data: str) -> FineTuned:
    return trained(data, kvstore="horovod")


def test_two_instances_compute_what_they_do_through_the_parameter_server(data: str, undisturbed: FineTuned) -> None:
    other = trained(data, kvstore="dist_sync")
    # The sum of two has one order.
    assert all(np.array_equal(params(other)[name], value) for name, value in params(undisturbed).items())
    assert [epoch.validated for epoch in other.epochs] == [epoch.validated for epoch in undisturbed.epochs]
    assert not left_running()


def test_nobody_complains_of_an_ordinary_end(data: str, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        trained(data, replace(CONFIG, epochs=1), kvstore="horovod")
    assert "exception" not in capfd.readouterr().err


def test_compressed_gradients_are_rounded(data: str, tmp_path: Path) -> None:
    path, one_step = tmp_path / "checkpoint", replace(CONFIG, epochs=1, batch_size=64)
    rounded = params(trained(data, one_step, kvstore="horovod", compress=True, checkpoint=path))
    exact = params(trained(data, one_step, kvstore="horovod"))
    begin = tiny().graph.params
    learned = [name for name in exact if "moving" not in name]
    error, step = (
        np.concatenate([(one[name] - other[name]).ravel() for name in learned])
        for one, other in ((rounded, exact), (exact, begin))
    )
    # Float16 has 11 bits; two gradients and their sum are rounded.
    assert 0 < np.linalg.norm(error) < 3 * 2**-11 * np.linalg.norm(step)
    with pytest.raises(UserError, match="is the checkpoint of a training with other samples, options"):
        trained(data, one_step, kvstore="horovod", checkpoint=path)


@pytest.mark.parametrize(
    ("module", "number"), [("instance_process", 0), ("instance_process", 1), ("horovod_rendezvous", 0)]
)
def test_a_killed_process_changes_nothing(
    data: str, undisturbed: FineTuned, module: str, number: int, tmp_path: Path
) -> None:
    result = trained_with_one_lost(data, module, number, tmp_path / "checkpoint", kvstore="horovod")
    assert all(np.array_equal(params(result)[name], value) for name, value in params(undisturbed).items())
    assert not left_running()


def test_an_int8_network_is_trained_as_through_the_parameter_server(
    spoiled: QuantizedModel, data: str, tmp_path: Path
) -> None:
    ways: tuple[KVStoreName, ...] = ("horovod", "dist_sync")
    one, other = (
        train_quantized(spoiled, data, data, config=INT8_CONFIG, workers=1, instances=TWO, kvstore=kvstore)
        for kvstore in ways
    )
    assert one.best == other.best > 0
    graphs = [each.network.network.graph.params for each in (one, other)]
    assert all(np.array_equal(graphs[1][name], value) for name, value in graphs[0].items())


def test_what_stops_an_instance_is_told(tmp_path: Path) -> None:
    path = tmp_path / "beyond.npz"
    np.savez(path, x=np.stack([each.image for each in coloured(32)]), y=np.full(32, 5))
    with pytest.raises(DataError, match="has label 5, but the network has 3 classes"):
        trained(str(path), kvstore="horovod")
    assert not left_running()
