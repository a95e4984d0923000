"""Loading what the verbs work on: an FP32 network to quantize, or anything that can be evaluated."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from quantkit.cli.option_groups import Loading, Preprocessing
from quantkit.cli.targets import check_not_bundle, is_bundle
from quantkit.cli.terminal import Terminal
from quantkit.errors import DataError, UserError

if TYPE_CHECKING:
    from quantkit.evaluation.network import Network
    from quantkit.models.model import Model

NOTHING_SAID = Preprocessing()

_KEYWORDS = ("auto", "pretrained", "random")


def load(
    terminal: Terminal,
    spec: str,
    loading: Loading,
    preprocessing: Preprocessing = NOTHING_SAID,
    class_scores: Optional[bool] = None,
) -> Model:
    """Load an FP32 network, make plain where its weights are random, and tell which preprocessing was put together.

    Raises:
        UserError: it is a bundle, unknown, damaged, or does not fit.
        WeightsUnavailable: trained weights were insisted on and cannot be had.
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
        preprocess=PreprocessChange(**asdict(preprocessing)),
        class_scores=class_scores,
        quiet=terminal.quiet,
    )
    if preprocessing != NOTHING_SAID and model.preprocess is not None:
        terminal.tell(f"images: {model.preprocess.text}")
    # Where they were tried for and not found, a warning has said how to get them.
    remedy = " For trained weights give --weights pretrained or --weights FILE." if weights == "random" else ""
    _warn_if_random(terminal, model.name, model.source.weights, remedy)
    return model


def warn_of_bundle(terminal: Terminal, bundle: str, weights: str) -> None:
    """Say so, loudly, where a bundle's weights are random."""
    _warn_if_random(terminal, bundle, weights, " For accuracy make it anew, of the trained network.")


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
        UserError: there is no such thing, or it cannot be used.
        BundleError: the bundle is damaged.
    """
    from quantkit.bundle.network import network_in, network_of

    if not is_bundle(spec):
        model = load(terminal, spec, loading, preprocessing)
        return network_of(model)
    found = network_in(Path(spec))
    warn_of_bundle(terminal, spec, found.weights)
    return found


def check_count(data: str, count: Optional[int]) -> None:
    """Make sure that sample data exist and are enough, before anything long begins.

    Raises:
        DataError: they are not, or cannot be opened.
    """
    from quantkit.data.samples import take
    from quantkit.data.sources import load_data

    samples = load_data(data)
    if samples.size == 0:
        raise DataError(f"{samples.name} holds no samples; give some")
    if count is not None and samples.size is not None:
        take(samples, count)
