"""The bundles of a server: what they are called, and how they run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os.path import abspath
from pathlib import Path
from types import MappingProxyType
from typing import Optional

from quantkit.bundle.read import read_bundle
from quantkit.deployment.deployment_file import read_deployment
from quantkit.deployment.loading import load
from quantkit.deployment.serving.served import Served
from quantkit.deployment.watching.monitor import Monitor
from quantkit.errors import UserError

Models = Mapping[str, Mapping[str, Served]]
"""Bundles by name and version; of several versions the last is meant where a request names none."""

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)


@dataclass(frozen=True)
class ModelPlace:
    """A bundle's folder, and its name and version in addresses."""

    name: str
    version: str
    directory: Path


def model_place(text: str) -> ModelPlace:
    """The meaning of ``BUNDLE``, ``NAME=BUNDLE`` or ``NAME/VERSION=BUNDLE``.

    Raises:
        UserError: the name or the version cannot be part of an address.
    """
    before, equals, path = text.partition("=")
    if not equals or Path(text).exists():
        before, path = Path(abspath(text)).name, text
    if not path:
        raise UserError(f"{text} names no bundle; give its folder after the equals sign")
    name, slash, version = before.partition("/")
    for each in (name, version) if slash else (name,):
        if not _NAME.fullmatch(each) or not each.strip("."):
            raise UserError(
                f"{text}: {each!r} cannot be part of an address; call it by letters, digits, '_', '-' and '.', such as "
                "net=BUNDLE or net/2=BUNDLE"
            )
    return ModelPlace(name, version or "1", Path(path))


def check_names(places: Sequence[ModelPlace]) -> None:
    """Check that bundles, of which there is at least one, can be told apart.

    Raises:
        UserError: two have one name and version.
    """
    twice, number = Counter((place.name, place.version) for place in places).most_common(1)[0]
    if number > 1:
        raise UserError(
            f"two bundles are called {twice[0]}, version {twice[1]}; give them names, such as {twice[0]}/2=BUNDLE"
        )


def tuned_files(deployments: Sequence[Path]) -> dict[str, Path]:
    """Deployments by the hashes of their bundles.

    Raises:
        UserError: two are of one bundle, or see ``read_deployment``.
    """
    tuned: dict[str, Path] = {}
    for file in deployments:
        before = tuned.setdefault(read_deployment(file).bundle.sha256, file)
        if before != file:
            raise UserError(f"{before} and {file} are of the same bundle; give one of them")
    return tuned


@contextmanager
def loaded_models(
    places: Sequence[ModelPlace],
    engine: Optional[str],
    instances: Optional[str],
    deployments: Sequence[Path],
    pixels: int,
    monitors: Mapping[ModelPlace, Monitor] = MappingProxyType({}),
) -> Iterator[Models]:
    """Load bundles, and close them at the end.

    Args:
        places: where they are, and what they are called.
        engine: of those that no deployment is given for, as for ``load``.
        instances: likewise; None: one process each, on all cores, which puts requests together.
        deployments: of some bundles, in any order.
        pixels: the most of all image files of a request together.
        monitors: how bundles are watched, as far as they are.

    Raises:
        UserError: two have one name and version, a deployment is of none of them, each has one beside which an engine
            or instances are given, or see ``load``.
        QuantkitError: see ``load``.
    """
    check_names(places)
    tuned = tuned_files(deployments)
    hashes = {place: read_bundle(place.directory).sha256 if tuned else "" for place in places}
    if all(each in tuned for each in hashes.values()) and (engine, instances) != (None, None):
        raise UserError("each bundle has a deployment, which says engine and instances; leave these out")
    unused = set(tuned)
    models: dict[str, dict[str, Served]] = {}
    with ExitStack() as stack:
        for place in places:
            bundle = hashes[place]
            monitor = monitors.get(place, False)
            if (tuned_for := tuned.get(bundle)) is not None:
                unused.discard(bundle)
                predictor = load(place.directory, deployment=tuned_for, allow_random_weights=True, monitor=monitor)
            else:
                spread = "1" if instances is None else instances
                predictor = load(
                    place.directory, engine=engine, instances=spread, allow_random_weights=True, monitor=monitor
                )
            stack.callback(predictor.close)
            models.setdefault(place.name, {})[place.version] = Served(place.name, place.version, predictor, pixels)
        if unused:
            raise UserError(f"{tuned[unused.pop()]} is of none of these bundles; give its own bundle as well")
        yield models
