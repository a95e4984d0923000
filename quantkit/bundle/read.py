"""Opening bundles: the hashes of their files, and whether card and manifest agree."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Optional, Union

from quantkit.bundle.bundle import Bundle, damaged
from quantkit.bundle.card import told_task
from quantkit.bundle.file_names import CARD
from quantkit.bundle.manifest import FileEntry, Manifest
from quantkit.bundle.manifest_file import read_manifest
from quantkit.bundle.replaced import reading_whole
from quantkit.errors import BundleError, ModelError, UserError
from quantkit.files.bundles import MANIFEST
from quantkit.files.contained import file_in
from quantkit.files.files import sha256_of
from quantkit.ir.handed_states import HandedState
from quantkit.models.card import Card, read_card
from quantkit.models.families import Task, corners_of
from quantkit.models.labels import NAMED, label_names


def read_bundle(directory: Union[str, Path]) -> Bundle:
    """Open a bundle and check the hash of every file.

    Raises:
        BundleError: the directory is not a bundle, or a file is missing, was changed, or contradicts the manifest.
    """
    directory = Path(directory)
    return reading_whole(directory, lambda: _checked(directory))


def _checked(directory: Path) -> Bundle:
    manifest = read_manifest(directory)
    for name, entry in manifest.files.items():
        if problem := file_problem(directory / name, entry):
            raise BundleError(f"{directory / name} {problem}; copy or write the bundle again")
    return open_bundle(directory, manifest)


def open_bundle(directory: Path, manifest: Manifest) -> Bundle:
    """Open the bundle in ``directory`` without checking hashes.

    Raises:
        BundleError: the card contradicts the manifest, or names a file that the manifest does not list; or the manifest
            does not list a state's output.
    """
    try:
        card = read_card(directory / CARD)
        _check_listed(card, manifest)
        labels = label_names(card)
    except ModelError as error:
        raise damaged(directory, CARD, error) from error
    described = (card.name, card.input_shape, told_task(card.task))
    stated = (manifest.name, manifest.input.shape, manifest.task)
    if described != stated:
        (name, shape, task), (its, own, said) = described, stated
        raise BundleError(
            f"{directory / CARD} describes {name!r} with input {shape}{_for(task)}, the manifest {its!r} with input "
            f"{own}{_for(said)}; write the bundle again"
        )
    _check_joined(directory, manifest)
    # Older bundles of detectors do not say it.
    corners = card.box_corners or corners_of(manifest.source.network, manifest.task)
    return Bundle(directory, manifest, card.preprocess, labels, _states(directory, manifest), corners)


def _for(task: Optional[Task]) -> str:
    return "" if task is None else f" for {task}"


def _states(directory: Path, manifest: Manifest) -> tuple[HandedState, ...]:
    """The states that a network hands on, each with the place of its output."""
    places = {(output.name, output.shape): place for place, output in enumerate(manifest.outputs)}
    if missing := [state for state in manifest.states if (state.output, state.shape) not in places]:
        what = f"there is no output {missing[0].output!r} of shape {missing[0].shape} for {missing[0].input!r}"
        raise damaged(directory, f"the states in {MANIFEST}", f"{what}; write the bundle again")
    return tuple(HandedState(state.input, places[state.output, state.shape], state.shape) for state in manifest.states)


def _check_joined(directory: Path, manifest: Manifest) -> None:
    """Refuse inputs of one name, and inputs that do not make the vector."""
    data, joined = manifest.input, manifest.input.joined
    names = [data.name, *(each.name for each in joined), *(state.input for state in manifest.states)]
    values = sum(prod(each.shape) for each in joined)
    if not joined:
        return
    what = "" if data.shape == (values,) else f"they have {values} values where {data.name!r} has shape {data.shape}"
    if twice := [name for name in names if names.count(name) > 1]:
        what = f"there are two of the name {twice[0]!r}"
    if what:
        raise damaged(directory, f"the inputs in {MANIFEST}", f"{what}; write the bundle again")


def _check_listed(card: Card, manifest: Manifest) -> None:
    """Refuse a card that names files without a hash, which are not part of the bundle."""
    labels = card.labels if isinstance(card.labels, str) and card.labels not in NAMED else None
    for name in filter(None, (card.symbol, card.params, labels)):
        if name not in manifest.files:
            raise ModelError(f"it names {name!r}, which is not in the manifest")


def file_problem(path: Path, entry: FileEntry) -> Optional[str]:
    """What is wrong with a file of a bundle; None if it is unchanged."""
    try:
        file_in(path.parent, path.name)
        size = path.stat().st_size
        if size != entry.size:
            return f"has {size} bytes where {entry.size} were written"
        return None if sha256_of(path) == entry.sha256 else "was changed: its hash differs"
    except UserError as error:
        return f"cannot be used: {error}"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
