"""What the processes of a training are started with."""

from __future__ import annotations

import warnings

import pytest

from quantkit.errors import ExtraMissing, UserError
from quantkit.training.launch import SlowExchangeWarning, advise_kvstore, check_kvstore, launch
from quantkit.training.machines import Machines

THIRD = Machines(4, 2, "127.0.0.1:9000")


def test_one_instance_needs_nobody() -> None:
    start = launch("dist_sync", 1, None)
    assert not start.servers() and not start.variables(0)


def test_the_parameter_server_has_a_part_on_each_machine() -> None:
    here = launch("dist_sync", 2, None)
    assert [server.variables["DMLC_ROLE"] for server in here.servers()] == ["scheduler", "server"]
    first, second = (here.variables(place) for place in (0, 1))
    assert first == second and first["DMLC_ROLE"] == "worker"
    there = launch("dist_sync", 2, THIRD)
    (server,) = there.servers()
    assert server.variables["DMLC_ROLE"] == "server"
    shared = {"DMLC_PS_ROOT_PORT": "9000", "DMLC_NUM_SERVER": "4", "DMLC_NUM_WORKER": "8"}
    assert shared.items() <= server.variables.items() and shared.items() <= there.variables(1).items()


@pytest.mark.requires("horovod")
def test_horovod_numbers_its_instances() -> None:
    (rendezvous,) = launch("horovod", 2, None).servers()
    assert rendezvous.settings["host"] == "127.0.0.1"
    there = launch("horovod", 2, THIRD)
    assert not there.servers()
    assert {
        "HOROVOD_RANK": "5",
        "HOROVOD_SIZE": "8",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "2",
        "HOROVOD_CROSS_SIZE": "4",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "9000",
        "HOROVOD_GLOO_IFACE": "lo",
    }.items() <= there.variables(1).items()


def test_ways_that_are_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="kvstore is 'nccl'; choose one of dist_sync, horovod"):
        check_kvstore("nccl", False)
    monkeypatch.setattr("quantkit.extras.find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=r"need the package horovod; .*'quantkit\[horovod\]', or take --kvstore"):
        check_kvstore("horovod", True)
    with pytest.raises(UserError, match=r"gradients are compressed through Horovod alone: .*; add --kvstore horovod"):
        check_kvstore("dist_sync", True)
    check_kvstore("dist_sync", False)


def test_large_gradients_are_better_sent_through_horovod() -> None:
    with pytest.warns(SlowExchangeWarning, match=r"exchange 553\.4 MB of gradients in each step; above 200\.0 MB they"):
        advise_kvstore("dist_sync", 553_400_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        advise_kvstore("dist_sync", 200_000_000)
        advise_kvstore("horovod", 553_400_000)
