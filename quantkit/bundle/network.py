"""Models and bundles as networks to run over images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quantkit.bundle.read import read_bundle
from quantkit.bundle.replaced import reading_whole
from quantkit.evaluation.network import Network
from quantkit.models.model import Model


def network_of(model: Model) -> Network:
    """An FP32 network, ready to run over images."""
    return Network(
        model.name,
        "fp32",
        model.graph,
        model.input_shape,
        model.preprocess,
        model.source.weights,
        model.labels,
        model.class_scores,
        model.vocabulary,
        model.task,
        model.box_corners,
        model.joined,
    )


def network_in(bundle: Path) -> Network:
    """The network of a bundle, ready to run over images; its name is the bundle's path.

    Raises:
        BundleError: the bundle is damaged.
    """

    def read() -> Network:
        opened = read_bundle(bundle)
        return replace(network_of(opened.model), name=str(bundle), kind=opened.manifest.kind)

    return reading_whole(bundle, read)
