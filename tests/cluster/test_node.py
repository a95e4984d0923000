"""What workers must have in common, and how they share a host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quantkit.cluster.node import Node, Versions, shares, this_node

VERSIONS = Versions("0.1.0 (abc)", "mxnet 1.9.1", "1.26.4", "11.3.0", "AVX2, AVX512", "")


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"quantkit": "0.1.0 (def)"}, "w has quantkit 0.1.0 (abc), others have 0.1.0 (def); install quantkit"),
        (
            {"engine": "mxnet-mkl 1.6.0"},
            "w has engine mxnet 1.9.1, others have mxnet-mkl 1.6.0; install",
        ),
        ({"pillow": ""}, "w has pillow 11.3.0, others have none"),
        (
            {"instructions": "AVX2"},
            "w has instructions AVX2, AVX512, others have AVX2; give workers",
        ),
    ],
)
def test_another_version_is_an_obstacle(other: dict[str, str], told: str) -> None:
    obstacle = VERSIONS.obstacle(replace(VERSIONS, **other), "w")
    assert obstacle is not None and obstacle.startswith(told)
    assert VERSIONS.obstacle(replace(VERSIONS), "w") is None


def test_workers_of_a_host_share_its_processor() -> None:
    nodes = {f"tcp://{number}": Node("one", (0, 1, 2, 3, 8), VERSIONS) for number in (7, 5)}
    nodes["tcp://9"] = Node("two", (0, 1), VERSIONS)
    # Pinned by its user.
    nodes["tcp://8"] = Node("one", (4, 5), VERSIONS)
    assert shares(nodes) == {"tcp://5": (0, 1, 2), "tcp://7": (3, 8), "tcp://9": (0, 1), "tcp://8": (4, 5)}


def test_more_workers_than_hardware_threads_share_some() -> None:
    nodes = {f"tcp://{number}": Node("one", (0, 1), VERSIONS) for number in range(5)}
    assert sorted(shares(nodes).values()) == [(0,), (0,), (0,), (1,), (1,)]


def test_a_node_tells_its_versions() -> None:
    node = this_node()
    assert node == this_node() and node.cpus
    assert all(value for name, value in vars(node.versions).items() if name != "settings")


def test_variables_that_choose_kernels_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX2")
    monkeypatch.setenv("DNNL_VERBOSE", "1")
    monkeypatch.setenv("MXNET_HOME", "/somewhere")
    assert this_node().versions.settings == "DNNL_MAX_CPU_ISA=AVX2"
