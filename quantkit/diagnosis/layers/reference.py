"""The FP32 network that a bundle was made from."""

from __future__ import annotations

from dataclasses import replace
from typing import Union

from quantkit.bundle import Bundle
from quantkit.calibration.table import CalibrationTable
from quantkit.data.dataset import CalibrationDataset
from quantkit.errors import ModelError, UserError, WeightsUnavailable
from quantkit.fusion.fused_model import FusedModel, fuse_model
from quantkit.models.load import NetworkSpec, load_model
from quantkit.models.model import Model
from quantkit.models.states_as_inputs import StatesKind


def calibration_of(bundle: Bundle) -> CalibrationTable:
    """The bundle's calibration.

    Raises:
        UserError: it is an FP32 bundle.
    """
    table = bundle.table
    if table is None:
        raise UserError(
            f"{bundle.directory} holds an FP32 network; give an INT8 bundle, as `quantkit quantize` writes it"
        )
    return table


def fused_reference(
    bundle: Bundle, reference: Union[Model, NetworkSpec, None], samples: CalibrationDataset
) -> FusedModel:
    """Load and fuse the FP32 network that the bundle was calibrated with, and make sure that it is that network.

    It reads images as the bundle does, whatever its own card says.

    Args:
        bundle: an INT8 bundle.
        reference: a Model, or anything that ``load_model`` takes; None for the network that the manifest names.
        samples: samples in the bundle's form, to check the fusion with.

    Raises:
        UserError: it cannot be loaded, is another network, or has other weights.
        WeightsUnavailable: ``reference`` is given and its weights cannot be found.
    """
    source = bundle.manifest.source
    if isinstance(reference, Model):
        model = reference
    else:
        weights = "random" if source.weights == "random" else "pretrained"
        spec = source.network if reference is None else reference
        states: StatesKind = "inputs" if bundle.manifest.states else "zero"
        try:
            model = load_model(
                spec,
                weights=weights,
                input_shape=bundle.input_shapes,
                states=states,
                preprocess=bundle.preprocess,
                quiet=True,
            )
        except (ModelError, WeightsUnavailable) as error:
            if reference is not None:
                raise
            raise ModelError(
                f"the FP32 network {source.network!r} that {bundle.directory} was made from cannot be loaded by its "
                f"name ({error}); give it with --reference (reference=), or its weights with --weights"
            ) from error
    _check_weights(bundle, model)
    as_bundle = replace(model, preprocess=bundle.preprocess, input_shape=bundle.manifest.input.shape)
    fused = fuse_model(as_bundle, samples)
    if fused.sha256 != calibration_of(bundle).graph_sha256:
        raise ModelError(
            f"{model.name!r} is not the network that {bundle.directory} was calibrated as, or this quantkit fuses it "
            f"in another way than {bundle.manifest.quantkit}, which wrote the bundle; give the network it was made "
            "from with --reference (reference=), or quantize it again"
        )
    return fused


def _check_weights(bundle: Bundle, model: Model) -> None:
    expected, actual = bundle.manifest.source.sha256, model.source.sha256
    if expected and actual and expected != actual:
        raise ModelError(
            f"{model.name!r} has other weights (SHA-256 {actual[:12]}..., {model.source.weights}) than the network "
            f"that {bundle.directory} was made from ({expected[:12]}..., {bundle.manifest.source.location}); give that "
            "one with --reference (reference=)"
        )
