"""Serve a bundle on two nodes, kill one while requests are answered, bring another, and print what came of it.

    ray_run BUNDLE TOKEN_FILE

The application is in a place of its own, /nets, and asks for the token in the file.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Union

import numpy as np
import ray
from ray import serve
from ray._private import state
from ray.cluster_utils import Cluster

from quantkit.deployment.serving.ray_serve import application

Ask = Callable[..., tuple[int, Any]]

PATIENCE = 120.0
CLIENTS = 4


def main(bundle: str, token_file: str) -> None:
    """Print the whole course as JSON."""
    token = Path(token_file).read_text().strip()
    others = instances(bundle)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        # A proxy of the second node would take half of the connections with it.
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        given = {"bundles": f"digits={bundle}", "replicas": 2, "token_file": token_file}
        serve.run(application(given), route_prefix="/nets")
        found = course(partial(ask, port, token), cluster, second)
        found["open"] = [ask(port, "", path)[0] for path in ("/v2/health/live", "/v2/health/ready", "/v2")]
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()
    until(lambda: instances(bundle) <= others)
    print(json.dumps(found))


def course(ask: Ask, cluster: Cluster, second: Any) -> dict[str, Any]:
    """What is answered before, while and after the second node is killed."""
    values = np.random.default_rng(0).random((2, 3, 32, 32), dtype=np.float32)
    tensor = {"name": "data", "datatype": "FP32", "shape": values.shape, "data": values.ravel().tolist()}
    body = json.dumps({"inputs": [tensor]})

    def infer() -> tuple[int, Any]:
        return ask("/v2/models/digits/infer", body)

    until(lambda: running() == 2)
    found: dict[str, Any] = {"metadata": ask("/v2/models/digits"), "wrong": ask("/v2/models/other")}
    found |= {"metrics": ask("/metrics")[0], "first": infer(), "nodes": len(nodes())}
    ended = Event()

    def client() -> list[int]:
        statuses = []
        while not ended.is_set():
            statuses.append(infer()[0])
        return statuses

    with ThreadPoolExecutor(CLIENTS) as clients:
        asking = [clients.submit(client) for _ in range(CLIENTS)]
        try:
            time.sleep(1)
            cluster.remove_node(second, allow_graceful=False)
            until(lambda: running() == 1)
        finally:
            ended.set()
        found["meanwhile"] = [status for each in asking for status in each.result()]
    found["after"] = [infer() for _ in range(10)]
    cluster.add_node(num_cpus=1)
    until(lambda: running() == 2)
    found |= {"nodes_again": len(nodes()), "again": [infer() for _ in range(10)]}
    return found


def ask(port: int, token: str, path: str, body: Union[str, None] = None) -> tuple[int, Any]:
    """The status of an answer, and what it says; 0 if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        connection.request("GET" if body is None else "POST", f"/nets{path}", body, headers)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if answer.headers["content-type"] == "application/json" else None
    except OSError:
        return 0, None
    finally:
        connection.close()


def running() -> int:
    """How many replicas run."""
    (deployment,) = serve.status().applications["default"].deployments.values()
    return int(deployment.replica_states.get("RUNNING", 0))


def nodes() -> set[str]:
    """The nodes on which replicas run."""
    # Public functions that tell need Ray's dashboard.
    alive = [each for each in state.actors().values() if each["State"] == "ALIVE"]
    return {each["Address"]["NodeID"] for each in alive if "ServeReplica" in each["ActorClassName"]}


def instances(bundle: str) -> set[int]:
    """The processes that run the bundle's network."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if "instance_process" in (line := (place / "cmdline").read_text()) and bundle in line:
                found.add(int(place.name))
    return found


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that has to happen."""
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
