"""A model from an ONNX file, with the metadata of quantkit's own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, TypeVar, get_args

from quantkit.data.boxes import BoxCorners
from quantkit.data.preprocess import Fit, Preprocess
from quantkit.errors import ModelError
from quantkit.files.files import as_text
from quantkit.files.text import parse_json
from quantkit.formats.onnx.reading.network import Imported, import_network
from quantkit.models.card import preprocess_of
from quantkit.models.families import Task, corners_of
from quantkit.models.input_shapes import Shapes
from quantkit.models.layout import SEQUENCE_LAYOUTS, check_no_layout, checked_layout, is_time_major
from quantkit.models.model import Model, Source, WeightsKind
from quantkit.models.notes import notes_of
from quantkit.models.preprocess_size import preprocess_at
from quantkit.models.vocabulary import inputs_with_vocabularies

ONNX_SUFFIX = ".onnx"

Word = TypeVar("Word", bound=str)


def from_onnx(
    path: Path,
    shape: Shapes,
    preprocess: Optional[Preprocess],
    layout: Optional[str] = None,
    fit_given: Optional[Fit] = None,
) -> Model:
    """Import an FP32 network from an ONNX file.

    Its preprocessing, its labels, what it is for, the corners of its boxes and the origin of its weights are those that
    ``quantkit.bundle.export.export_onnx`` writes; files from elsewhere have none, and boxes with edges.

    Args:
        path: the file.
        shape: of one input without the batch, if the file leaves it open or another is wanted; by their names where
            there are several.
        preprocess: instead of the file's.
        layout: that of sequences in the file; None: told by its recurrent layers.
        fit_given: the ``fit`` that takes the place of the file's crop.

    Raises:
        ModelError: the file cannot be imported (see ``import_network``), its metadata are damaged, or the layout is
            unknown or does not fit.
    """
    if not isinstance(shape, Mapping) and (shape is not None or layout not in SEQUENCE_LAYOUTS):
        checked_layout(layout, shape or ())
    network = import_network(path, shape, None if layout is None else is_time_major(layout))
    if network.joined:
        check_no_layout(layout, str(path))
    else:
        checked_layout(layout, network.input_shape)
    usual = _preprocess(network.metadata, path)
    if preprocess is None:
        preprocess = preprocess_at(usual, network.usual_shape, network.input_shape, fit_given)
    weights: WeightsKind = "random" if network.metadata.get("weights") == "random" else "file"
    name = as_text(path.stem)
    source = Source(name, weights, as_text(path.name), network.sha256)
    labels, notes = _labels(network.metadata, path), notes_of(_time_major(network), network.zero_states, network.joined)
    tasks: tuple[Task, ...] = get_args(Task)
    known: tuple[BoxCorners, ...] = get_args(BoxCorners)
    task = _one_of(tasks, network.metadata, "task", path)
    return Model(
        name,
        network.graph,
        network.input_shape,
        preprocess,
        source,
        labels,
        notes=notes,
        task=task,
        box_corners=_one_of(known, network.metadata, "box_corners", path)
        or corners_of(network.metadata.get("network", ""), task),
        joined=inputs_with_vocabularies(network.graph, network.joined),
    )


def _time_major(network: Imported) -> Optional[str]:
    """The layout of the file's input, if it has steps before the batch."""
    return f"TN{'C' * (len(network.input_shape) - 1)}" if network.steps_first else None


def _preprocess(metadata: Mapping[str, str], path: Path) -> Optional[Preprocess]:
    if not metadata.get("preprocess"):
        return None
    try:
        return preprocess_of(_json(metadata, "preprocess", path))
    except ValueError as error:
        raise _damaged(path, "preprocess") from error


def _labels(metadata: Mapping[str, str], path: Path) -> tuple[str, ...]:
    labels = _json(metadata, "labels", path) if metadata.get("labels") else []
    if not isinstance(labels, list) or not all(isinstance(each, str) and as_text(each) == each for each in labels):
        raise _damaged(path, "labels")
    return tuple(labels)


def _one_of(words: Sequence[Word], metadata: Mapping[str, str], name: str, path: Path) -> Optional[Word]:
    """The word that an entry holds; None where it is missing or empty."""
    said = metadata.get(name) or None
    if said is not None and said not in words:
        raise _damaged(path, name)
    return next((word for word in words if word == said), None)


def _json(metadata: Mapping[str, str], name: str, path: Path) -> Any:
    try:
        return parse_json(metadata[name])
    except ValueError as error:
        raise _damaged(path, name) from error


def _damaged(path: Path, name: str) -> ModelError:
    return ModelError(
        f"{path}: its metadata entry {name!r} is damaged; export it again, or remove the entry from the file"
    )
