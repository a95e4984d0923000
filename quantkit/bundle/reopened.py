"""A bundle's INT8 network beside the FP32 network that it was made from, to be worked on again."""

from __future__ import annotations

from dataclasses import replace

from quantkit.bundle.bundle import Bundle
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.errors import UserError
from quantkit.fusion.fused_model import fuse_model
from quantkit.models.dataset import CalibrationData
from quantkit.models.model import Model


def reopened(bundle: Bundle, model: Model, data: CalibrationData) -> QuantizedModel:
    """The quantized network in a bundle, as ``quantize`` gave it but for its agreement with FP32.

    Args:
        bundle: an INT8 bundle.
        model: the FP32 network that it was made from.
        data: samples on which the model's fusion is checked.

    Raises:
        UserError: the bundle is not INT8, or was made from another network.
        BundleError: the bundle is damaged.
        QuantkitError: see ``fuse_model``.
    """
    settings, table, config = bundle.manifest.settings, bundle.table, bundle.config
    if settings is None or table is None or config is None:
        raise UserError(f"{bundle.directory} is an FP32 bundle; give an INT8 one, which `quantkit quantize` makes")
    source = fuse_model(model, data)
    if table.graph_sha256 != source.sha256:
        raise UserError(
            f"{bundle.directory} was not made from {model.name!r} with these weights, or by another version of "
            "quantkit; give the network that it was made from (--reference), or quantize it again"
        )
    source = replace(source, model=replace(source.model, notes=bundle.manifest.notes))
    return QuantizedModel(
        source,
        table,
        bundle.network,
        config,
        settings.algorithms,
        mixed=settings.mixed,
        speed=settings.speed,
        training=bundle.training,
    )
