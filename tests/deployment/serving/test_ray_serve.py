"""The application of Ray Serve: on a cluster of two nodes of which one is killed, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.bundle import Bundle
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.runner import RunnerStatus
from quantkit.errors import BundleError, EngineError, QuantkitError
from tests.processes import environment
from tests.requirements import requires

requires("ray")

from quantkit.deployment.serving.ray_serve import Arguments, Replica, application  # noqa: E402
from tests.deployment.serving import ray_run  # noqa: E402


@pytest.fixture(scope="module")
def course(bundle: Bundle) -> Any:
    """What ``ray_run`` tells."""
    command = [sys.executable, "-m", ray_run.__name__, str(bundle.directory)]
    # Ray reports to its makers otherwise.
    variables = environment(RAY_USAGE_STATS_ENABLED="0")
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def replica(bundle: Bundle) -> Iterator[Replica]:
    given = str(bundle.directory)
    replica = Replica(Arguments(bundles=given), {given: bundle.sha256})
    yield replica
    replica.__del__()


def test_two_nodes_answer_as_a_server_does(course: Any, bundle: Bundle) -> None:
    status, metadata = course["metadata"]
    assert (status, metadata["name"], metadata["inputs"][0]["shape"]) == (200, "digits", [-1, 3, 32, 32])
    assert course["wrong"][0] == 404
    assert "there are digits" in course["wrong"][1]["error"]
    assert course["metrics"] == 404
    assert course["nodes"] == 2
    status, answer = course["first"]
    assert status == 200
    values = np.random.default_rng(0).random((2, 3, 32, 32), dtype=np.float32)
    found = np.reshape(answer["outputs"][0]["data"], answer["outputs"][0]["shape"])
    np.testing.assert_allclose(found, Predictor(bundle).predict(values), rtol=1e-4, atol=1e-5)


def test_a_killed_node_loses_no_request(course: Any) -> None:
    # Those that the node was answering may fail, and say so.
    assert set(course["meanwhile"]) <= {200, 500, 503}
    assert course["meanwhile"].count(200) > ray_run.CLIENTS
    assert course["after"] == 10 * [course["first"]]


def test_a_further_node_takes_its_place(course: Any) -> None:
    assert course["nodes_again"] == 2
    assert course["again"] == 10 * [course["first"]]


def test_a_node_with_another_bundle_is_told(bundle: Bundle) -> None:
    given = str(bundle.directory)
    with pytest.raises(BundleError, match="another bundle on this node"):
        Replica(Arguments(bundles=given), {given: "0" * 64})


def test_a_replica_is_well_until_a_bundle_can_answer_no_more(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    replica.check_health()
    (served,) = replica._models["fp32"].values()
    monkeypatch.setattr(served.predictor, "status", lambda: RunnerStatus(failed=True))
    with pytest.raises(EngineError, match="'fp32' can answer no more"):
        replica.check_health()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "bundles cannot be used: Field required"),
        ({"bundles": []}, "needs a bundle"),
        ({"bundles": "net", "replica": 2}, "replica cannot be used: there is no such key"),
        ({"bundles": "net", "replicas": 0}, "replicas cannot be used"),
        ({"bundles": "missing"}, "missing is not a bundle"),
        ({"bundles": "a b=net"}, "part of an address"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QuantkitError, match=message):
        application(arguments)


def test_scaling_is_what_ray_is_told(bundle: Bundle) -> None:
    given = {"bundles": str(bundle.directory), "replicas": 2, "requests": 10, "cpus": 4}
    fixed = application(given)._bound_deployment
    assert (fixed.num_replicas, fixed.max_ongoing_requests, fixed.ray_actor_options["num_cpus"]) == (2, 10, 4)
    scaled = application({**given, "most_replicas": 5})._bound_deployment
    config = scaled._deployment_config.autoscaling_config
    assert (config.min_replicas, config.max_replicas, config.target_ongoing_requests) == (2, 5, 8)


def test_a_token_that_is_none_is_refused(bundle: Bundle, tmp_path: Path) -> None:
    given = str(bundle.directory)
    replica = Replica(Arguments(bundles=given, token_file=tmp_path / "none"), {given: bundle.sha256})
    try:
        with pytest.raises(QuantkitError, match="token"):
            replica.__serve_build_asgi_app__()
    finally:
        replica.__del__()
