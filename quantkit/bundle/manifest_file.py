"""The file of a manifest: written as JSON, read with distrust."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Optional

from pydantic import TypeAdapter, ValidationError

from quantkit.bundle.file_names import REQUIRED, REQUIRED_INT8
from quantkit.bundle.manifest import VERSIONS, Manifest
from quantkit.errors import BundleError, UserError
from quantkit.files.bundles import MANIFEST
from quantkit.files.contained import file_in
from quantkit.files.schema import first_fault
from quantkit.files.text import parse_json, read_bytes


def manifest_text(manifest: Manifest) -> str:
    """The manifest as JSON; equal manifests give equal text."""
    document = asdict(manifest)
    if manifest.sample is None:
        del document["sample"]
    for absent in [name for name in ("notes", "step_scores", "states", "task") if not document[name]]:
        del document[absent]
    if manifest.input.vocabulary is None:
        del document["input"]["vocabulary"]
    if not manifest.input.joined:
        del document["input"]["joined"]
    agreement = document["agreement"] or {}
    for absent in [name for name in ("steps", "perplexity", "scores") if not agreement.get(name)]:
        agreement.pop(absent, None)
    return json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_manifest(directory: Path) -> Manifest:
    """Read the manifest of the bundle in ``directory``.

    Raises:
        BundleError: there is none, or it is damaged, a link out of the bundle, of another version, or does not list a
            required file.
    """
    path = directory / MANIFEST
    try:
        content = read_bytes(file_in(directory, MANIFEST))
    except UserError as error:
        raise BundleError(f"{directory} is not a bundle: {error}") from error
    except OSError as error:
        raise BundleError(f"{directory} is not a bundle: cannot read {MANIFEST} ({error.strerror or error})") from error
    version = _version(content)
    if version is not None and version not in VERSIONS:
        first, *_, last = VERSIONS
        raise BundleError(
            f"{path} has version {version!r}, but this quantkit reads versions {first} to {last}; use the one that "
            "wrote it"
        )
    try:
        manifest = _schema().validate_json(content)
    except ValidationError as error:
        where, what = first_fault(error)
        raise BundleError(f"{path} is damaged at {where or 'its beginning'}: {what}; write the bundle again") from error
    required = REQUIRED_INT8 if manifest.kind == "int8" else REQUIRED
    if missing := sorted(required - set(manifest.files)):
        raise BundleError(f"{path} does not list {', '.join(missing)}; write the bundle again")
    return manifest


@cache
def _schema() -> TypeAdapter[Manifest]:
    """The validator, made once: making it takes longer than using it."""
    return TypeAdapter(Manifest)


def _version(content: bytes) -> Optional[object]:
    """The version that a manifest states; None if it states none."""
    try:
        document = parse_json(content)
    except ValueError:
        return None
    return document.get("version") if isinstance(document, dict) else None
