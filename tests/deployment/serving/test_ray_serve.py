"""The application of Ray Serve: on a cluster of two nodes of which one is killed, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import quantkit
from quantkit.backends.registry import MXNET
from quantkit.bundle import Bundle, read_bundle, write_float_bundle
from quantkit.deployment.deployment_file import Deployment, TunedBundle, deployment_text, this_host
from quantkit.deployment.instances import Instances
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.runner import RunnerStatus
from quantkit.errors import BundleError, EngineError
from quantkit.fusion.fused_model import fuse_model
from tests.processes import environment
from tests.requirements import requires

requires("ray")

from ray.serve.exceptions import RayServeException  # noqa: E402

from quantkit.deployment.serving.ray_serve import (  # noqa: E402
    ApplicationError,
    Arguments,
    Replica,
    application,
)
from tests.deployment.serving import ray_run  # noqa: E402

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def course(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What ``ray_run`` tells."""
    token = tmp_path_factory.mktemp("ray") / "token"
    token.write_text(TOKEN)
    command = [sys.executable, "-m", ray_run.__name__, str(bundle.directory), str(token)]
    # Ray reports to its makers otherwise.
    variables = environment(RAY_USAGE_STATS_ENABLED="0")
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def replica(bundle: Bundle) -> Iterator[Replica]:
    replica = Replica(arguments_of(bundle), [bundle.sha256])
    yield replica
    replica.__del__()


def arguments_of(bundle: Bundle, **others: Any) -> Arguments:
    return Arguments.model_validate({"bundles": str(bundle.directory), **others})


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


def test_a_token_is_asked_for_but_for_health(course: Any) -> None:
    assert course["open"] == [200, 200, 401]


def test_every_request_is_answered_while_a_node_is_killed(course: Any) -> None:
    # Those that the node was answering may fail, and say so.
    assert set(course["meanwhile"]) <= {200, 500, 503}
    assert course["meanwhile"].count(200) > ray_run.CLIENTS
    assert course["after"] == 10 * [course["first"]]


@pytest.mark.long
def test_a_further_node_takes_its_place(course: Any) -> None:
    assert course["nodes_again"] == 2
    assert course["again"] == 10 * [course["first"]]


def test_a_node_with_another_bundle_is_told(bundle: Bundle) -> None:
    with pytest.raises(BundleError, match="another bundle on this node"):
        Replica(arguments_of(bundle), ["0" * 64])


def test_the_threads_that_ray_asks_for_are_not_the_users(bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, left in (("2", None), ("3", "3")):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        with pytest.raises(BundleError):
            Replica(arguments_of(bundle, cpus=2.5), ["0" * 64])
        assert os.environ.get("OMP_NUM_THREADS") == left


def test_bundles_without_a_deployment_have_their_instances(bundle: Bundle, digits_onnx: Path, tmp_path: Path) -> None:
    own, host = TunedBundle(bundle.manifest.name, bundle.manifest.kind, bundle.sha256), this_host()
    tuned = Deployment(
        own, host, "mxnet", MXNET.installed_version(), Instances("1x1"), None, {"goal": "throughput"}, {}
    )
    (tmp_path / "deployment.toml").write_text(deployment_text(tuned))
    bundles = [f"one={bundle.directory}", f"two={digits_onnx}"]
    arguments = arguments_of(bundle, bundles=bundles, instances="2x1", deployments=tmp_path / "deployment.toml")
    replica = Replica(arguments, [bundle.sha256, read_bundle(digits_onnx).sha256])
    try:
        shown = {name: repr(versions["1"].predictor) for name, versions in replica._models.items()}
    finally:
        replica.__del__()
    assert "1 instance)" in shown["one"] and "2 instances)" in shown["two"], shown


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
        ({"bundles": []}, "bundles cannot be used: .* at least 1"),
        ({"bundles": 5}, "bundles cannot be used"),
        ("net", "should be a valid dictionary"),
        ({"bundles": "net", "replica": 2}, "replica cannot be used: there is no such key"),
        ({"bundles": "net", "replicas": 0}, "replicas cannot be used"),
        ({"bundles": "missing"}, "missing is not a bundle"),
        ({"bundles": "a b=net"}, "part of an address"),
        ({"bundles": ["net", "net"]}, "two bundles are called net"),
        ({"bundles": "net", "replicas": 4, "most_replicas": 2}, "4 replicas at least, and 2 at most"),
        ({"bundles": "net", "wanted_requests": 4}, "give most_replicas as well"),
        ({"bundles": "net", "cpus": float("inf")}, "cpus cannot be used"),
        ({"bundles": "net", "seconds": 5000}, "at most 3600"),
        ({"bundles": "net", "engine": "nonsense"}, "no engine 'nonsense'"),
        ({"bundles": "net", "token_file": "none"}, "cannot read the token"),
        ({"bundles": "net", "deployments": "none.toml"}, "none.toml"),
    ],
)
def test_arguments_that_cannot_be_used_are_named(
    arguments: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ApplicationError, match=message) as caught:
        application(arguments)
    # Ray shows such errors without a traceback, and does not try again.
    assert isinstance(caught.value, RayServeException)


def test_scaling_is_what_ray_is_told(bundle: Bundle) -> None:
    fixed = application(arguments_of(bundle, replicas=2, requests=10, cpus=4))._bound_deployment
    assert (fixed.num_replicas, fixed.max_ongoing_requests, fixed.ray_actor_options["num_cpus"]) == (2, 10, 4)
    assert fixed._deployment_config.graceful_shutdown_timeout_s > Arguments(bundles="net").seconds
    scaled = application(arguments_of(bundle, replicas=2, most_replicas=5))._bound_deployment
    config = scaled._deployment_config.autoscaling_config
    assert (config.min_replicas, config.max_replicas, config.target_ongoing_requests) == (2, 5, 8)


def test_random_weights_are_told(bundle: Bundle, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    application(arguments_of(bundle))
    assert not caplog.records
    made = fuse_model(quantkit.load_model("mobilenetv2_0.25", weights="random", quiet=True), "builtin")
    application({"bundles": str(write_float_bundle(made, tmp_path / "net"))})
    assert "was never trained" in caplog.text
