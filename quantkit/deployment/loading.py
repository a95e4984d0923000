"""``load``: a bundle, ready to predict."""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Optional, Union

from quantkit.backends.registry import DEPLOYED
from quantkit.bundle.read import read_bundle
from quantkit.bundle.replaced import reading_whole
from quantkit.deployment.deployment_file import Deployment, read_deployment
from quantkit.deployment.instances import Instances
from quantkit.deployment.predictor import Predictor
from quantkit.deployment.streams import Streams
from quantkit.deployment.watching.monitor import Monitor
from quantkit.errors import EngineMissing, UserError
from quantkit.files.bundles import MANIFEST, is_bundle


def load(
    bundle: Union[str, os.PathLike[str]],
    *,
    engine: Optional[str] = None,
    allow_random_weights: bool = False,
    instances: Union[Instances, Streams, str, int, None] = None,
    threads: Optional[int] = None,
    reduced_decoding: bool = False,
    deployment: Union[str, os.PathLike[str], None] = None,
    monitor: Union[bool, Monitor] = False,
    workers: Optional[int] = None,
) -> Predictor:
    """Load a bundle to predict with it.

    Args:
        bundle: its directory.
        engine: ``mxnet``, ``onnxruntime``, ``openvino`` or ``auto``, as for ``Predictor``; None: MXNet if it is
            installed, else another installed engine.
        allow_random_weights: whether to load a network with random weights, whose predictions are meaningless.
        instances: processes that share the requests, each with some cores, or their placement, such as ``core``,
            ``node`` or a number; or ``Streams`` of this process; None: the network runs in this process, once at a
            time.
        threads: the cores of each of a number of instances; None: as many as possible.
        reduced_decoding: whether JPEG files that have at least four times the height and width that the preprocessing
            scales them to are decoded at a half, a quarter or an eighth of their size, which takes less time. What the
            network reads differs a little. ``detect``, ``segment`` and ``pose`` decode at full size.
        deployment: the file that ``quantkit tune`` wrote for this bundle on this machine; it says engine, instances and
            workers.
        monitor: whether to watch for drift: whether what the network reads and puts out still is like the samples it
            was calibrated on. Or a ``Monitor``, which says how, where events go, and when FP32 is run, too.
        workers: threads that read files and scale large images while the network runs, 1 to 256; None: as many as the
            deployment says, or one for each hardware thread, 16 at most.

    Raises:
        UserError: the directory is not a bundle, the bundle's weights are random, it lacks the ONNX file that the
            engine needs, there is no room for the instances, threads are given without a number of them, the
            deployment is of another bundle or host, the bundle does not say what a monitor needs, or ``workers`` is not
            from 1 to 256.
        BundleError: a file of the bundle is missing or was changed.
        EngineError: the bundle's network cannot run here.
        EngineMissing: the engine is not installed.
    """
    directory = Path(bundle)
    if not is_bundle(directory):
        raise UserError(
            f"{directory} is no bundle: it has no {MANIFEST}; give a folder that quantkit wrote, or load an FP32 "
            "network with quantkit.load_model()"
        )
    if deployment is None:
        tuned, spread = None, _spread(instances, threads)
    else:
        tuned = _tuned(Path(deployment), engine, instances, threads)
        engine, spread, workers = tuned.engine, tuned.spread, tuned.workers if workers is None else workers

    def opened() -> Predictor:
        read = read_bundle(directory)
        if deployment is not None and tuned is not None:
            tuned.check(read, Path(deployment))
            _warn_if_updated(tuned, Path(deployment))
        return Predictor(read, allow_random_weights, engine, spread, reduced_decoding, monitor, workers)

    return reading_whole(directory, opened, Predictor.close)


class DeploymentWarning(UserWarning):
    """A deployment was measured with another version of its engine."""


def _warn_if_updated(tuned: Deployment, file: Path) -> None:
    engine = DEPLOYED[tuned.engine]
    with suppress(EngineMissing):
        if (installed := engine.installed_version()) != tuned.engine_version:
            warnings.warn(
                f"{file} was measured with {engine.title} {tuned.engine_version}, and {installed} is installed; tune "
                "it again: quantkit tune BUNDLE --retune",
                DeploymentWarning,
                stacklevel=4,
            )


def _tuned(file: Path, *given: object) -> Deployment:
    if any(each is not None for each in given):
        raise UserError(f"{file} says engine and instances; leave engine, instances and threads out, or the deployment")
    return read_deployment(file)


def _spread(
    instances: Union[Instances, Streams, str, int, None], threads: Optional[int]
) -> Union[Instances, Streams, None]:
    if instances is not None and not isinstance(instances, (Instances, Streams)):
        return Instances(instances, threads)
    if threads is not None:
        raise UserError("threads are of a number of instances; give instances=N, or Instances(N, threads=...)")
    return instances
