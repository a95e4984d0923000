"""Measurements of the benefit and the cost of layers in FP32, kept in the journal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from typing import Optional, TypeVar, Union

import numpy as np
from pydantic import FiniteFloat, PositiveFloat, TypeAdapter, ValidationError

from quantkit.errors import QuantkitError
from quantkit.evaluation.drop import Drop
from quantkit.evaluation.latency import latencies_in_turns, median_difference
from quantkit.fusion.fused_model import FusedModel
from quantkit.ir.graph import Graph
from quantkit.lowering.mxnet_int8 import int8_graph
from quantkit.mixed_precision.choose import Layers, Trial
from quantkit.mixed_precision.images import Judged
from quantkit.mixed_precision.journal import Journal, Value
from quantkit.mixed_precision.kept_in_fp32 import kept_in_fp32
from quantkit.mixed_precision.task_images import JudgedByTask
from quantkit.quantization.algorithms.apply import AdjustedNetwork

_TRIAL_SECONDS = 0.5
_CHECK_SECONDS = 2.0

# The names of checks in the journal: with the algorithms as first applied, and with them applied again.
_CHECKS = {False: "check", True: "check, adjusted again"}


# The networks that a check must have timed, without and with layers in FP32.
_LATENCIES = {False: {"fp32", "fp32_fused", "int8"}, True: {"fp32", "fp32_fused", "int8", "mixed"}}

T = TypeVar("T")


@dataclass(frozen=True)
class _Checked:
    """A check as the journal holds it: ``JudgedNetwork`` with ``images.outcomes`` instead of the drop."""

    divergence: float
    outcomes: list[Union[int, FiniteFloat]]
    milliseconds: dict[str, PositiveFloat]
    extra: float
    noise: float


_TRIAL = TypeAdapter(Trial)
_CHECKED = TypeAdapter(_Checked)


class TimeIsUp(Exception):
    """The budget ended before a new measurement."""


class Budget:
    """A number of seconds, which starts when the object is made."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._begun = monotonic()

    @property
    def spent(self) -> float:
        """The share that is spent; 1 or more if all is."""
        elapsed = monotonic() - self._begun
        return elapsed / self._seconds if self._seconds > 0 else 1.0


@dataclass(frozen=True)
class JudgedNetwork:
    """The accuracy of a network on all images, and its latency.

    Attributes:
        layers: those in FP32.
        again: whether the algorithms were applied again for them.
        divergence: how far the outputs are from FP32's on a subset of the images: the mean Kullback-Leibler divergence
            of class scores in nats; of a task, such as detection, how far predictions are apart, from 0 to 1; of other
            outputs the noise as a share of the signal, of several in units of the noise of the network all in INT8.
        drop: against FP32, on all images; None if nothing is measured there, see ``images.Judged``.
        milliseconds: median latencies at batch 1 of ``fp32``, ``fp32_fused``, ``int8`` (all of it) and ``mixed``,
            measured in turns; without the last if ``layers`` is empty.
        extra: the latency beyond that of ``int8``, in milliseconds, run by run: other work on the machine slows
            both, so it affects this less than the difference of the medians.
        noise: the uncertainty of ``extra``, in milliseconds.
    """

    layers: Layers
    again: bool
    divergence: float
    drop: Optional[Drop]
    milliseconds: Mapping[str, float]
    extra: float
    noise: float

    @property
    def latency(self) -> float:
        """The network's latency, in milliseconds."""
        return self.milliseconds["mixed" if self.layers else "int8"]

    @property
    def speedup(self) -> float:
        """The speed relative to the original FP32 network."""
        return self.milliseconds["fp32"] / self.latency


def with_layers_in_fp32(adjusted: AdjustedNetwork, layers: Collection[str]) -> AdjustedNetwork:
    """The adjusted network with ``layers`` in FP32, with their parameters from before the adjustment."""
    graph = adjusted.network.graph
    names = {tensor.node for layer in layers for tensor in graph.by_name[layer].inputs}
    exact = {name: adjusted.exact.params[name] for name in names & adjusted.exact.params.keys()}
    with_exact = replace(adjusted.network, graph=replace(graph, params={**graph.params, **exact}))
    return replace(adjusted, network=kept_in_fp32(with_exact, layers))


class Measurements:
    """Trials and checks of one network.

    Args:
        source: the fused model.
        adjusted: the network all in INT8.
        anew: applies the algorithms again, for some layers in FP32.
        images: the images to evaluate on.
        journal: keeps the measurements.
        budget: new measurements begin only while it lasts.

    Attributes:
        checks: all checks of this and earlier processes, by layers and whether the algorithms were applied again.
    """

    def __init__(
        self,
        source: FusedModel,
        adjusted: AdjustedNetwork,
        anew: Callable[[Layers], AdjustedNetwork],
        images: Union[Judged, JudgedByTask],
        journal: Journal,
        budget: Budget,
    ) -> None:
        self.journal = journal
        self.budget = budget
        self.checks: dict[tuple[Layers, bool], JudgedNetwork] = {}
        self._source = source
        self._adjusted = adjusted
        self._anew = anew
        self._images = images
        self._made: dict[Layers, AdjustedNetwork] = {}
        for kind, *layers in journal:
            known = adjusted.network.graph.by_name.keys() >= set(layers)
            if not known or _key(kind, frozenset(layers)) != (kind, *layers):
                raise self._damaged((kind, *layers))
            if kind in _CHECKS.values():
                self.check(frozenset(layers), again=kind == _CHECKS[True])

    def network(self, layers: Layers, again: bool = False) -> AdjustedNetwork:
        """The network with ``layers`` in FP32; with ``again``, the algorithms are applied again for them."""
        if not again:
            return with_layers_in_fp32(self._adjusted, layers)
        if layers not in self._made:
            self._made[layers] = self._anew(layers)
        return self._made[layers]

    def knows(self, layers: Layers) -> bool:
        """Whether ``layers`` have been tried already."""
        return _key("trial", layers) in self.journal

    def trial(self, layers: Layers) -> Trial:
        """The benefit and the cost of ``layers`` in FP32.

        Raises:
            TimeIsUp: they have not been measured yet, and the budget is spent.
        """
        return self._recall("trial", layers, self._trial, _TRIAL)

    def check(self, layers: Layers, again: bool = False, overtime: bool = False) -> JudgedNetwork:
        """Evaluate the network with ``layers`` in FP32; with ``overtime``, even if the budget is spent.

        Raises:
            TimeIsUp: it has not been measured yet, and the budget is spent.
        """
        if (layers, again) not in self.checks:
            checked = self._recall(
                _CHECKS[again], layers, lambda layers: self._check(layers, again), _CHECKED, overtime
            )
            complete = _LATENCIES[bool(layers)] == checked.milliseconds.keys()
            computed, known = np.array(checked.outcomes), self._images.outcomes
            alike = (computed.shape, computed.dtype) == (known.shape, known.dtype)
            if not alike or not complete:
                raise self._damaged(_key(_CHECKS[again], layers))
            drop = self._images.drop(computed)
            self.checks[layers, again] = JudgedNetwork(
                layers, again, checked.divergence, drop, checked.milliseconds, checked.extra, checked.noise
            )
        return self.checks[layers, again]

    def _recall(
        self,
        kind: str,
        layers: Layers,
        measure: Callable[[Layers], Value],
        form: TypeAdapter[T],
        overtime: bool = False,
    ) -> T:
        what = _key(kind, layers)
        if what not in self.journal and not overtime and self.budget.spent >= 1:
            raise TimeIsUp
        value = self.journal.recall(what, lambda: measure(layers))
        try:
            return form.validate_python(value)
        except ValidationError as error:
            raise self._damaged(what) from error

    def _damaged(self, what: tuple[str, ...]) -> QuantkitError:
        return QuantkitError(
            f"the entry {what[0]!r} of the journal {self.journal.path} is damaged; delete the journal to measure again"
        )

    def _trial(self, layers: Layers) -> Value:
        graph = self._graph(layers)
        milliseconds, noise = 0.0, 0.0
        if layers:
            networks = {"int8": self._int8, "mixed": graph}
            times = latencies_in_turns(networks, self._source.sample, _TRIAL_SECONDS)
            milliseconds, noise = median_difference(times["int8"], times["mixed"])
        return {"divergence": self._images.divergence(graph), "milliseconds": milliseconds, "noise": noise}

    def _check(self, layers: Layers, again: bool) -> Value:
        graph = self._graph(layers, again)
        networks = {"fp32": self._source.model.graph, "fp32_fused": self._source.graph, "int8": self._int8}
        if layers:
            networks["mixed"] = graph
        times = latencies_in_turns(networks, self._source.sample, _CHECK_SECONDS)
        extra, noise = median_difference(times["int8"], times.get("mixed", times["int8"]))
        return {
            "divergence": self._images.divergence(graph),
            "outcomes": self._images.outcomes_of(graph).tolist(),
            "milliseconds": {name: float(np.median(values)) for name, values in times.items()},
            "extra": extra,
            "noise": noise,
        }

    def _graph(self, layers: Layers, again: bool = False) -> Graph:
        return int8_graph(self.network(layers, again).network)

    @cached_property
    def _int8(self) -> Graph:
        return self._graph(frozenset())


def _key(kind: str, layers: Layers) -> tuple[str, ...]:
    return (kind, *sorted(layers))
