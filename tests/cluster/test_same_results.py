"""Calibrations, evaluations and searches on a cluster of two real workers: the results are those of one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import quantkit
from quantkit.bundle.network import network_of
from quantkit.calibration.table import CalibrationTable
from quantkit.cluster import executor as executor_module
from quantkit.cluster.executor import ClusterExecutor
from quantkit.data.sources import load_data
from quantkit.evaluation.evaluate import evaluate_networks
from quantkit.files.cache import KINDS
from quantkit.fusion.fused_model import FusedModel
from quantkit.mixed_precision.images import judged
from quantkit.progress import silent
from quantkit.quantization.calibrate import calibrate
from quantkit.tasks.judge import judge
from tests.data.annotations import voc_folder

if TYPE_CHECKING:
    from distributed import Client

pytestmark = pytest.mark.usefixtures("own_home")

SAMPLES = 60

METHODS = ("minmax", "entropy", "mse")


@pytest.fixture(scope="module")
def tables(digits_fused: FusedModel) -> list[CalibrationTable]:
    """Those that one process makes."""
    return [calibrate(digits_fused, "digits:train", SAMPLES, method) for method in METHODS]


@pytest.mark.parametrize(("size", "shards"), [(None, 10), (4, 15), (32, 2)])
def test_tables_are_those_of_one_process(
    client: Client, digits_fused: FusedModel, tables: list[CalibrationTable], size: int | None, shards: int
) -> None:
    with ClusterExecutor(client, size) as executor:
        for method, table in zip(METHODS, tables):
            assert calibrate(digits_fused, "digits:train", SAMPLES, method, executor=executor) == table
    assert len(executor.work) == len(METHODS) * shards
    assert not KINDS["shards"].entries()


def test_an_evaluation_is_that_of_one_process(client: Client, digits_fused: FusedModel) -> None:
    whole = network_of(digits_fused.model)
    networks: Any = {"network": replace(whole, graph=digits_fused.graph), "reference": whole}
    data = load_data("digits:test")
    expected = evaluate_networks(networks, data, num_samples=SAMPLES)
    with ClusterExecutor(client, 16) as executor:
        found = evaluate_networks(networks, data, num_samples=SAMPLES, executor=executor)
    assert found.document == expected.document and found.accuracy["network"].top1 > 0.9


def test_a_search_judges_as_in_one_process(client: Client, digits_fused: FusedModel) -> None:
    alone = judged(digits_fused, "digits:test", silent)
    with ClusterExecutor(client) as executor:
        shared = judged(digits_fused, "digits:test", silent, executor)
        assert shared.facts == alone.facts and shared.drop(shared.outcomes) == alone.drop(alone.outcomes)
        fused = shared.outcomes_of(digits_fused.graph)
        assert fused.tobytes() == alone.outcomes_of(digits_fused.graph).tobytes()
        assert executor.environment["threads"] == 1
    assert len({work.worker for work in executor.work}) == 2


def test_workers_open_annotated_images_themselves(
    client: Client, engine: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks: Any = dict.fromkeys(("network", "reference"), network_of(quantkit.load_model("digits_ssd")))
    objects = [("7", (4.0, 4.0, 40.0, 50.0), 0)]
    folder = str(voc_folder(tmp_path / "voc", {str(number): ((64, 64), objects) for number in range(12)}))
    alone = judge("detection", networks, folder, 2)
    # This is what reads samples to be sent out.
    monkeypatch.delattr(executor_module, "prepared")
    with ClusterExecutor(client, 4) as executor:
        assert judge("detection", networks, folder, 2, executor=executor) == alone
    assert len(executor.work) == 3 and alone.images == 12
