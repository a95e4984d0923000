"""Measuring a profile: recording a network's runs and comparing them with the machine's peak."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Optional, Union

from quantkit.backends.mxnet.peak import measured_peak
from quantkit.backends.mxnet.profiler import Recording, record
from quantkit.backends.mxnet.shapes import infer_shapes
from quantkit.bundle.bundle import Bundle
from quantkit.diagnosis.profile.layers import Original, layers_of
from quantkit.diagnosis.profile.profile import Profile, profile
from quantkit.ir.graph import Graph
from quantkit.ir.macs import macs
from quantkit.models.model import Model
from quantkit.progress import Tell, untold
from quantkit.quantization.explain import Explanation


@dataclass(frozen=True)
class ProfiledNetwork:
    """A profile, with the network as it ran, its kind (``fp32`` or ``int8``), and its recording."""

    kind: str
    graph: Graph
    recording: Recording
    profile: Profile


def profile_network(
    network: Union[Model, Bundle], batch: int = 1, runs: Optional[int] = None, tell: Tell = untold
) -> ProfiledNetwork:
    """Record where the time of a network goes, in MXNet.

    Args:
        network: a model or a bundle; a bundle's layers get the names of the operators that it was made from.
        batch: the number of images in a run.
        runs: the number of runs to record; None for as many as a few seconds allow.
        tell: receives a line as each stage begins.

    Raises:
        ModelError: the network has no operators.
        EngineMissing: MXNet is not installed.
        EngineError: it cannot run or record the network.
    """
    graph = network.graph
    if isinstance(network, Bundle):
        kind, image, originals = network.manifest.kind, network.manifest.input.shape, _originals(network.operators)
    else:
        kind, image, originals = "fp32", network.input_shape, {}
    shape = (batch, *image)
    counts = macs(graph, infer_shapes(graph, dict.fromkeys(graph.inputs, shape)))
    recording = record(graph, shape, runs, tell)
    tell("measuring the peak of this machine")
    peak = measured_peak()
    layers = layers_of(graph, originals)
    return ProfiledNetwork(kind, graph, recording, profile(graph, recording, layers, counts, peak, batch))


def _originals(operators: Iterable[Explanation]) -> dict[str, list[Original]]:
    """The names and types of the original operators that a fused one computes, by its name."""
    originals: dict[str, list[Original]] = {}
    for row in operators:
        if row.into:
            originals.setdefault(row.into, []).append((row.node, row.operator))
    return originals
