"""Figures of a server, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from quantkit.deployment.serving.served import Served

PAGE = CONTENT_TYPE_LATEST
"""The type of the page of figures."""

_LABELS = ("model", "version")
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The figures of one server."""

    def __init__(self, served: Sequence[Served]) -> None:
        """Begin at zero."""
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "quantkit_requests", "Answered requests, by status.", (*_LABELS, "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "quantkit_request_seconds", "From a request's arrival to its answer, of those answered with 200.", _LABELS,
            registry=self._registry, buckets=_SECONDS,
        )  # fmt: skip
        # Without the path, of which anyone could ask for ever new ones.
        self._refused = Counter(
            "quantkit_refused_requests", "Requests refused before they reached a model, by status.", ("status",),
            registry=self._registry,
        )  # fmt: skip
        self._running = Gauge("quantkit_requests_running", "Requests that are being served.", registry=self._registry)
        self._registry.register(_Queues(served))
        self._registry.register(_Signals(served))
        ProcessCollector(registry=self._registry)

    def running(self, number: int) -> None:
        """Note how many requests are being served."""
        self._running.set(number)

    def answered(self, model: Served, status: int, seconds: float) -> None:
        """Count an answer, so many seconds after the request arrived."""
        self._requests.labels(model.name, model.version, str(status)).inc()
        if status == 200:
            self._seconds.labels(model.name, model.version).observe(seconds)

    def refused(self, status: int) -> None:
        """Count a request that is refused before it reaches a model."""
        self._refused.labels(str(status)).inc()

    def page(self) -> bytes:
        """All figures."""
        return generate_latest(self._registry)


class _Queues(Collector):
    """What waits for the networks, and the batches that they run."""

    def __init__(self, served: Sequence[Served]) -> None:
        self._served = served

    def collect(self) -> Iterator[Metric]:
        """The figures of all models."""
        waiting = GaugeMetricFamily(
            "quantkit_waiting_samples", "Samples that no instance or stream has begun with.", labels=_LABELS
        )
        lost = CounterMetricFamily(
            "quantkit_lost_instances", "Instances that were lost, and replaced if that could be done.", labels=_LABELS
        )
        sizes = HistogramMetricFamily("quantkit_batch_size", "Samples that are run at once.", labels=_LABELS)
        for each in self._served:
            status = each.predictor.status()
            waiting.add_metric([each.name, each.version], status.waiting)
            lost.add_metric([each.name, each.version], status.lost)
            counts = [
                sum(count for size, count in status.batches.items() if low < size <= high)
                for low, high in zip((0, *_SIZES), (*_SIZES, float("inf")))
            ]
            names = [*(f"{size:.1f}" for size in _SIZES), "+Inf"]
            total = sum(size * count for size, count in status.batches.items())
            sizes.add_metric([each.name, each.version], list(zip(names, accumulate(counts))), total)
        yield from (waiting, lost, sizes)


class _Signals(Collector):
    """What monitors tell; models without one have no such figures."""

    def __init__(self, served: Sequence[Served]) -> None:
        self._served = served

    def collect(self) -> Iterator[Metric]:
        """The figures of all models."""
        labels = (*_LABELS, "signal")
        drifts = GaugeMetricFamily("quantkit_drift", "1 where a signal drifts, else 0.", labels=labels)
        distances = GaugeMetricFamily(
            "quantkit_drift_distance", "From a signal's distribution in calibration, 0 to 1.", labels=labels
        )
        means = GaugeMetricFamily("quantkit_signal_mean", "Of a signal in its last test.", labels=labels)
        counters = [
            CounterMetricFamily(f"quantkit_{name}_samples", text, labels=_LABELS)
            for name, text in (
                ("seen", "Samples that were answered."),
                ("watched", "Samples whose signals were computed."),
                ("compared", "Samples that FP32 answered, too, to compare."),
                ("agreeing", "Those of them with the same best class."),
                ("fp32", "Samples that FP32 answered in place of INT8, which was not sure."),
                ("uncompared", "Samples that could not be compared."),
            )
        ]
        for each in self._served:
            status = each.predictor.monitor_status()
            if status is None:
                continue
            place = [each.name, each.version]
            for name, signal in status.signals.items():
                drifts.add_metric([*place, name], name in status.drifting)
                distances.add_metric([*place, name], signal.distance)
                means.add_metric([*place, name], signal.mean)
            shadow = status.shadow
            figures = (
                status.seen, status.watched, shadow.compared, shadow.agreeing, shadow.answered, shadow.failed,
            )  # fmt: skip
            for counter, figure in zip(counters, figures):
                counter.add_metric(place, figure)
        yield from (drifts, distances, means, *counters)
