"""How the bundles of a server are watched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from quantkit.bundle.manifest_file import read_manifest
from quantkit.deployment.serving.models import ModelPlace
from quantkit.deployment.watching.monitor import Monitor
from quantkit.errors import UserError
from quantkit.files.bundles import is_bundle


@dataclass(frozen=True)
class Monitoring:
    """What is watched of the bundles of a server.

    Attributes:
        events: the folder of their events, a file each; it is made if there is none. None: events are in the log.
        references: FP32 bundles, each of the network of one or more of the bundles.
        shadow: see ``Monitor``.
        fp32_below: see ``Monitor``.
    """

    events: Optional[Path] = None
    references: Sequence[Path] = ()
    shadow: Optional[int] = None
    fp32_below: float = 0.0


def monitors(places: Sequence[ModelPlace], monitoring: Monitoring) -> Mapping[ModelPlace, Monitor]:
    """How each bundle is watched.

    Raises:
        UserError: an FP32 bundle is of none of the networks, or the folder cannot be made.
        BundleError: a bundle cannot be read.
    """
    references = {path: _network(path) for path in monitoring.references}
    unused, found = set(references), {}
    for place in places:
        network = _network(place.directory)
        reference = next((path for path, other in references.items() if other == network), None)
        unused.discard(reference)  # type: ignore[arg-type]
        if reference is None and monitoring.fp32_below:
            raise UserError(f"{place.directory} needs its network in FP32 for --fp32-below; give that with --reference")
        events = None if monitoring.events is None else monitoring.events / f"{place.name}-{place.version}.jsonl"
        found[place] = Monitor(
            reference=reference, shadow=monitoring.shadow, fp32_below=monitoring.fp32_below, events=events
        )
    if unused:
        raise UserError(
            f"{unused.pop()} is of the network of none of these bundles, or a second one of a network; give one of "
            "`quantkit fuse` for each"
        )
    if monitoring.events is not None:
        try:
            monitoring.events.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = error.strerror or error
            raise UserError(f"cannot make {monitoring.events}: {what}; choose another folder") from error
    return found


def _network(directory: Path) -> tuple[object, ...]:
    """What the bundles of a network have in common."""
    if not is_bundle(directory):
        raise UserError(f"{directory} is no bundle; give a folder that quantkit wrote")
    manifest = read_manifest(directory)
    return manifest.input, manifest.source.sha256
