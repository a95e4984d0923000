"""Loading the networks that commands work on: an FP32 network to quantize, or one to evaluate."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.targets import check_not_bundle
from quantkit.cli.terminal import Terminal
from quantkit.errors import DataError, UserError, WeightsUnavailable
from quantkit.files.bundles import is_bundle

if TYPE_CHECKING:
    from quantkit.evaluation.network import Network
    from quantkit.models.families import Task
    from quantkit.models.model import Model

NOTHING_SAID = Preprocessing()

_KEYWORDS = ("auto", "pretrained", "random")


def load(
    terminal: Terminal,
    spec: str,
    loading: Loading,
    preprocessing: Preprocessing = NOTHING_SAID,
    class_scores: Optional[bool] = None,
    task: Optional[Task] = None,
) -> Model:
    """Load an FP32 network, warn if its weights are random, and say which preprocessing options apply.

    Raises:
        UserError: it is a bundle, unknown or damaged, or the options do not fit it.
        WeightsUnavailable: trained weights are required and cannot be found.
    """
    from quantkit.models.load import load_model
    from quantkit.models.preprocess_change import PreprocessChange

    check_not_bundle(spec)
    weights = loading.weights
    if weights not in _KEYWORDS and not Path(weights).is_file():
        raise UserError(f"there is no weights file {weights!r}; give a file, auto, pretrained or random")
    terminal.stage(f"loading {spec}")
    model = load_model(
        spec,
        weights=weights,
        input_shape=loading.input_shape,
        layout=loading.layout,
        states=loading.states,
        preprocess=PreprocessChange(**asdict(preprocessing)),
        class_scores=class_scores,
        task=task,
        box_corners=loading.box_corners,
        quiet=terminal.quiet,
    )
    if preprocessing != NOTHING_SAID and model.preprocess is not None:
        terminal.tell(f"images: {model.preprocess.text}")
    for note in model.notes:
        terminal.tell(f"{model.name}: {note}")
    # If trained weights were looked for in vain, a warning has said how to get them.
    remedy = " For trained weights give --weights pretrained or --weights FILE." if weights == "random" else ""
    _warn_if_random(terminal, model.name, model.source.weights, remedy)
    return model


def load_trained(
    terminal: Terminal, spec: str, loading: Loading, preprocessing: Preprocessing, otherwise: str
) -> Model:
    """Load a network, whose weights are random only if the user says so.

    Args:
        terminal: where it is told.
        spec: the network.
        loading: its weights and inputs.
        preprocessing: of its images.
        otherwise: what to do where there are no trained weights.

    Raises:
        UserError: trained weights are to be found, and cannot be; otherwise see ``load``.
    """
    if loading.weights != "auto":
        return load(terminal, spec, loading, preprocessing)
    try:
        return load(terminal, spec, replace(loading, weights="pretrained"), preprocessing)
    except WeightsUnavailable as error:
        raise UserError(f"{error}, or {otherwise}") from error


def warn_of_bundle(terminal: Terminal, bundle: str, weights: str) -> None:
    """Print an alarm if a bundle's weights are random."""
    _warn_if_random(terminal, bundle, weights, " For accuracy, make it again from the trained network.")


def _warn_if_random(terminal: Terminal, name: str, weights: str, remedy: str) -> None:
    if weights == "random":
        terminal.alarm(
            "RANDOM WEIGHTS",
            f"{name} was never trained: its predictions mean nothing. Speed and size are real, accuracy is not."
            f"{remedy}",
        )


def open_network(
    terminal: Terminal, spec: str, loading: Loading, preprocessing: Preprocessing = NOTHING_SAID
) -> Network:
    """Open a bundle, or load an FP32 network.

    Raises:
        UserError: there is no such network, or it cannot be used.
        BundleError: the bundle is damaged.
    """
    from quantkit.bundle.network import network_in, network_of

    if not is_bundle(spec):
        model = load(terminal, spec, loading, preprocessing)
        return network_of(model)
    network = network_in(Path(spec))
    warn_of_bundle(terminal, spec, network.weights)
    return network


def check_count(data: str, count: Optional[int]) -> None:
    """Make sure that there are enough sample data, before any long work.

    Raises:
        DataError: there are too few, or they cannot be opened.
    """
    from quantkit.data.samples import take
    from quantkit.data.sources import load_data

    samples = load_data(data)
    if samples.size == 0:
        raise DataError(f"{samples.name} holds no samples; give some")
    if count is not None and samples.size is not None:
        take(samples, count)
