"""A bundle to predict with, a network to work on, and either of them to run over images."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from quantkit.bundle.manifest import MANIFEST
from quantkit.bundle.read import read_bundle
from quantkit.bundle.replaced import reading_whole
from quantkit.deployment.predictor import Predictor
from quantkit.evaluation.network import Network
from quantkit.models.model import Model


def load(spec: Any, **options: Any) -> Any:
    """Load a bundle or a network.

    Args:
        spec: a bundle's directory, or anything that ``load_model`` takes.
        options: for a bundle those of ``Predictor`` (``engine``, ``allow_random_weights``), for a network those of
            ``load_model``.

    Returns:
        A Predictor for a bundle, a Model for a network.

    Raises:
        BundleError: a file of the bundle is missing or was changed.
        UserError: the bundle's weights are random, or the network cannot be loaded.
        EngineError: the bundle's network cannot run here.
        EngineMissing: the engine is not installed.
    """
    if isinstance(spec, (str, os.PathLike)) and (Path(spec) / MANIFEST).is_file():
        return reading_whole(Path(spec), lambda: Predictor(read_bundle(Path(spec)), **options))
    # Deployments do without what loads networks.
    from quantkit.models.load import load_model

    return load_model(spec, **options)


def network_of(model: Model) -> Network:
    """An FP32 network, ready to be run over images."""
    return Network(
        model.name,
        "fp32",
        model.graph,
        model.input_shape,
        model.preprocess,
        model.source.weights,
        model.labels,
        model.class_scores,
    )


def network_in(bundle: Path) -> Network:
    """The network of a bundle, ready to be run over images; it is called by the bundle's path.

    Raises:
        BundleError: the bundle is damaged.
    """

    def read() -> Network:
        opened = read_bundle(bundle)
        return replace(
            network_of(opened.model),
            name=str(bundle),
            kind=opened.manifest.kind,
        )

    return reading_whole(bundle, read)
