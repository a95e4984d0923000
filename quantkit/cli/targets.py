"""Checking where results go, before the work that makes them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle

if TYPE_CHECKING:
    from quantkit.files.folders import Kind


def default_bundle(spec: str) -> Path:
    """The folder for the INT8 form of a network: ``NAME-int8`` in the current folder."""
    return Path(f"{network_name(spec)}-int8")


def network_name(spec: str) -> str:
    """The name for folders of the network ``spec``, without loading it; the name of a card cannot lead elsewhere.

    Raises:
        ModelError: ``spec`` is a card that cannot be read.
    """
    from quantkit.models.card import find_card, read_card

    path = Path(spec)
    if path.suffix == ".toml":
        return re.sub(r"[/\x00-\x1f\x7f]+", "_", read_card(path).name)
    card = None if os.sep in spec else find_card(spec)
    if card is not None:
        return card.name
    for ending in ("-symbol.json", ".onnx"):
        if path.name.endswith(ending):
            return path.name[: -len(ending)]
    return path.name


def check_not_bundle(spec: str, remedy: str = "give the FP32 network it was made from") -> None:
    """Refuse bundles, where an FP32 network is needed, and specs without a name; ``remedy`` is what bundles need.

    Raises:
        UserError: it is one of them.
    """
    if not Path(spec).name:
        raise UserError(f"{spec!r} is a folder; give a checkpoint's prefix in it, or a name from `quantkit models`")
    if is_bundle(spec):
        raise UserError(f"{spec} is a bundle that quantkit made already; {remedy}")


def check_bundle_target(path: Path, force: bool) -> None:
    """Make sure that a bundle can be written to ``path``.

    Raises:
        UserError: something is there already, or its folder cannot be written.
    """
    from quantkit.bundle import BUNDLE

    check_target(path, force, BUNDLE)


def check_target(path: Path, force: bool, kind: Kind) -> None:
    """Make sure that a folder of a kind can be written to ``path``; see ``check_bundle_target``."""
    from quantkit.files.folders import check_destination
    from quantkit.files.temporary import remove_leftovers

    # A killed run may have moved an older folder aside; it is put back first.
    remove_leftovers(path.resolve().parent)
    check_destination(path, force, kind)
    _check_folder(path)


def check_file_target(path: Path, force: bool, make_folder: bool = False, option: str = "--out") -> None:
    """Make sure that a file can be written to ``path``; its folder has to be there, unless ``make_folder``.

    ``option`` is the one that names another place.

    Raises:
        UserError: something is there already, its folder is missing or cannot be written, or it is a bundle's, whose
            files have hashes.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder; give a file with {option}")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a device, a pipe or a socket, which would be replaced; give a file with {option}")
    if is_bundle(path.resolve().parent):
        raise UserError(
            f"{path} lies in a bundle, which would be damaged by it; choose a place elsewhere with {option}"
        )
    if path.exists() and not force:
        raise UserError(f"{path} exists already; replace it with --force, or choose another place with {option}")
    if not (make_folder or path.parent.is_dir()):
        raise UserError(f"there is no folder {path.parent}; make it, or choose another place with {option}")
    _check_folder(path, option)


def _check_folder(path: Path, option: str = "--out") -> None:
    existing = next(folder for folder in path.absolute().parents if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise UserError(f"{existing} cannot be written; choose another place with {option}")
