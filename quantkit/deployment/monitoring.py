"""What a monitor needs of a bundle, and of the same network in FP32."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import numpy as np

from quantkit.bundle.bundle import Bundle
from quantkit.bundle.read import read_bundle
from quantkit.deployment.monitored_runner import MonitoredRunner
from quantkit.deployment.network import open_network
from quantkit.deployment.runner import Runner, Turns
from quantkit.deployment.watching.drift_watch import DriftWatch
from quantkit.deployment.watching.event_log import EventLog
from quantkit.deployment.watching.events import Started, now, rounded
from quantkit.deployment.watching.monitor import Monitor, shadowed_every
from quantkit.deployment.watching.shadow import Shadow
from quantkit.deployment.watching.watcher import Watcher
from quantkit.drift.reference import DriftReference
from quantkit.drift.signals import SignalMaker, signal_maker
from quantkit.errors import UserError


def monitored(runner: Runner, bundle: Bundle, monitor: Optional[Monitor]) -> tuple[Runner, Optional[Watcher]]:
    """A runner of a bundle's network, watched as a monitor says, and what watches it; without one, itself.

    Raises:
        QuantkitError: see ``opened_watcher``; the runner is closed.
    """
    if monitor is None:
        return runner, None
    try:
        watcher = opened_watcher(bundle, runner.engine, monitor)
    except BaseException:
        runner.close()
        raise
    return MonitoredRunner(runner, watcher), watcher


def opened_watcher(bundle: Bundle, engine: str, monitor: Monitor) -> Watcher:
    """The watcher of a bundle's network in an engine.

    Raises:
        UserError: the bundle does not hold the signals of calibration, or those of too few samples; the reference is
            not the same network in FP32; or the events cannot be written.
        QuantkitError: the reference cannot be opened.
    """
    reference = _reference(bundle)
    maker = maker_of(bundle)
    if min(DriftWatch(reference).smallest_distances.values()) > 1:
        raise UserError(
            f"{bundle.directory} was made with {reference.samples} calibration samples, too few to tell drift "
            "from chance; quantize with 32 or more (--calib)"
        )
    drift = DriftWatch(_with_agreement(reference, bundle, monitor))
    shadow = _shadow(bundle, engine, monitor, maker)
    log = None if monitor.events is None else EventLog(monitor.events, _started(bundle, engine, drift))
    return Watcher(bundle.manifest.name, maker, drift, monitor.share, shadow, log)


def _reference(bundle: Bundle) -> DriftReference:
    if bundle.drift is not None:
        return bundle.drift
    if bundle.manifest.kind == "fp32":
        raise UserError(f"{bundle.directory} is an FP32 bundle, which was not calibrated; monitor an INT8 one")
    raise UserError(
        f"{bundle.directory} does not say what its network usually reads: it was calibrated on the built-in "
        "photographs, its agreement with FP32 was not measured, or an older quantkit made it; quantize with typical "
        "samples of your own (--calib-data, calibration_data)"
    )


def _with_agreement(reference: DriftReference, bundle: Bundle, monitor: Monitor) -> DriftReference:
    """The reference with the agreement that was measured when the network was quantized, where it will be again."""
    found = bundle.manifest.agreement
    if not shadowed_every(monitor) or found is None or found.top1 is None or not found.images:
        return reference
    return reference.with_agreement(found.top1, found.images)


def maker_of(bundle: Bundle) -> SignalMaker:
    """What computes the signals of a bundle's network.

    Raises:
        BundleError: its calibration table cannot be read.
    """
    table, manifest = bundle.table, bundle.manifest
    final = manifest.outputs[0].scores
    return signal_maker(table, manifest.input.name, bundle.preparation, manifest.class_scores, final)


def _shadow(bundle: Bundle, engine: str, monitor: Monitor, maker: SignalMaker) -> Optional[Shadow]:
    if monitor.reference is None:
        return None
    reference = read_bundle(Path(monitor.reference))
    own, other = bundle.manifest, reference.manifest
    if other.kind != "fp32":
        raise UserError(f"{reference.directory} is an INT8 bundle; give the fused FP32 one, of `quantkit fuse`")
    shapes = ([(output.shape, output.scores) for output in each.outputs] for each in (own, other))
    if (own.input, own.source.sha256, next(shapes)) != (other.input, other.source.sha256, next(shapes)):
        raise UserError(
            f"{reference.directory} is not the network of {bundle.directory} in FP32: its input, its outputs or its "
            "weights differ; fuse the network that was quantized"
        )
    if not own.class_scores:
        raise UserError(f"the network {own.name!r} puts out no class scores to compare; leave the reference out")
    network = Turns(open_network(reference, engine))

    def run(batch: np.ndarray, deadline: Optional[float]) -> list[np.ndarray]:
        return next(network.outputs([batch], deadline))

    return Shadow(run, shadowed_every(monitor), monitor.fp32_below, maker.final)


def _started(bundle: Bundle, engine: str, drift: DriftWatch) -> Started:
    reference = drift.reference
    calibration = {
        name: (rounded(reference.means[name]), rounded(reference.spreads[name]), rounded(min(1.0, smallest)))
        for name, smallest in drift.smallest_distances.items()
    }
    return Started(now(), bundle.manifest.name, bundle.sha256, engine, _reference(bundle).samples, calibration)
