"""The stages in a row: from a network to its INT8 form in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from quantkit.bundle.quantized_model import QuantizedModel, evaluate, lower
from quantkit.calibration.table import CalibrationTable
from quantkit.fusion.fused_model import fuse_model
from quantkit.models.dataset import dataset
from quantkit.models.load import load_model
from quantkit.models.model import Model
from quantkit.progress import Progress, silent
from quantkit.quantization.algorithms.config import PTQConfig
from quantkit.quantization.algorithms.stage import apply_algorithms, plan
from quantkit.quantization.calibrate import DEFAULT_METHOD, calibrate, shipped_recipe
from quantkit.quantization.plan import TensorDtype


def quantize(
    model: Any,
    calib: Optional[int] = None,
    samples: Any = None,
    method: str = DEFAULT_METHOD,
    exclude: Union[str, Sequence[str]] = (),
    dtype: TensorDtype = "auto",
    table: Optional[CalibrationTable] = None,
    algorithms: Union[str, PTQConfig, None] = None,
    progress: Progress = silent,
    **loading: Any,
) -> QuantizedModel:
    """From a network to its INT8 form in one call, compared with FP32 in the end.

    Args:
        model: a Model, or anything that ``load_model`` takes.
        calib: the number of calibration samples.
        samples: what to calibrate and compare with; None: the table that ships for these weights where there is one
            (see ``quantization.calibrate.shipped_recipe``), else the built-in photographs.
        method: the calibration method.
        exclude: original node names, globs or operator types that stay FP32.
        dtype: see ``make_plan``.
        table: an earlier calibration of the same network, instead of a new one.
        algorithms: see ``apply_algorithms``.
        progress: wraps streams of batches.
        **loading: options of ``load_model`` (``weights``, ``params``, ``input_shape``, ``preprocess``), where
            ``model`` is not a Model yet.
    """
    loaded = model if isinstance(model, Model) else load_model(model, **loading)
    images = dataset(loaded, "builtin" if samples is None else samples)
    source = fuse_model(loaded, images)
    recipe = shipped_recipe(source, method) if samples is None and table is None else None
    if recipe is not None:
        table, images = recipe.table, dataset(loaded, recipe.samples)
    found = table if table is not None else calibrate(source, images, calib, method, progress)
    planned = plan(source, found, exclude, dtype)
    adjusted = apply_algorithms(source, found, planned, images, algorithms, progress)
    return evaluate(lower(source, found, adjusted), images, progress)
