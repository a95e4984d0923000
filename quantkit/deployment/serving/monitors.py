"""How the bundles of a server are watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit.bundle.file_names import SIGNALS
from quantkit.bundle.manifest import Manifest
from quantkit.bundle.manifest_file import read_manifest
from quantkit.deployment.serving.models import ModelPlace
from quantkit.deployment.watching.monitor import Monitor
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle


@dataclass(frozen=True)
class Monitoring:
    """What is watched of the bundles of a server.

    Attributes:
        events: the folder of their events, NAME/VERSION.jsonl each; it is made if there is none. None: events are in
            the log.
        references: FP32 bundles, each of the network of one or more of the bundles.
        shadow: see ``Monitor``.
        fp32_below: see ``Monitor``.
    """

    events: Optional[Path] = None
    references: Sequence[Path] = ()
    shadow: Optional[int] = None
    fp32_below: float = 0.0


def monitors(places: Sequence[ModelPlace], monitoring: Monitoring) -> Mapping[ModelPlace, Monitor]:
    """How each bundle is watched; those that hold no signals are not, unless none does, which is then an error to load.

    Raises:
        UserError: an FP32 bundle is of none of the networks, one is missing, or a folder cannot be made.
        BundleError: a bundle cannot be read.
    """
    manifests = {place: _manifest(place.directory) for place in places}
    watched = [place for place in places if SIGNALS in manifests[place].files] or list(places)
    references = {path: _network(_manifest(path)) for path in monitoring.references}
    unused, found = set(references), {}
    for place in watched:
        network = _network(manifests[place])
        reference = next((path for path, other in references.items() if other == network), None)
        if reference is None and monitoring.fp32_below:
            raise UserError(f"{place.directory} needs its network in FP32 for --fp32-below; give that with --reference")
        unused -= {reference}
        found[place] = Monitor(
            reference=reference,
            shadow=None if references and reference is None else monitoring.shadow,
            fp32_below=monitoring.fp32_below,
            events=None if monitoring.events is None else _events(monitoring.events, place),
        )
    if unused:
        raise UserError(
            f"{unused.pop()} is of the network of none of these bundles, or a second one of a network; give one of "
            "`quantkit fuse` for each"
        )
    return found


def _events(folder: Path, place: ModelPlace) -> Path:
    try:
        (folder / place.name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror or error}; choose another folder") from error
    return folder / place.name / f"{place.version}.jsonl"


def _manifest(directory: Path) -> Manifest:
    if not is_bundle(directory):
        raise UserError(f"{directory} is no bundle; give a folder that quantkit wrote")
    return read_manifest(directory)


def _network(manifest: Manifest) -> tuple[object, ...]:
    """What the bundles of a network have in common."""
    return manifest.input, manifest.source.sha256
