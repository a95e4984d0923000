"""Bundles of the digits network, written once and copied for each test that alters them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from quantkit.bundle import write_bundle, write_float_bundle
from quantkit.files import sha256_of


@pytest.fixture(scope="session", params=["fp32", pytest.param("int8", marks=pytest.mark.int8)])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of either kind. Do not alter it."""
    directory = tmp_path_factory.mktemp("written") / request.param
    if request.param == "fp32":
        return write_float_bundle(request.getfixturevalue("digits_fused"), directory)
    return write_bundle(request.getfixturevalue("digits_int8"), directory)


@pytest.fixture
def bundle(written: Path, tmp_path: Path) -> Path:
    """A bundle of either kind, to alter."""
    return Path(shutil.copytree(written, tmp_path / "bundle"))


@pytest.fixture(scope="session")
def edit() -> Callable[..., None]:
    """Change a bundle's manifest: ``edit(bundle, function)`` hands the document to the function."""

    def edit_manifest(directory: Path, change: Callable[[dict], object]) -> None:
        path = directory / "manifest.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit_manifest


@pytest.fixture(scope="session")
def resign(edit: Callable[..., None]) -> Callable[[Path], None]:
    """Make a bundle's manifest name the hashes that its files have now."""

    def all_files(directory: Path, document: dict) -> None:
        for name, entry in document["files"].items():
            entry.update(sha256=sha256_of(directory / name), size=(directory / name).stat().st_size)

    return lambda directory: edit(directory, lambda document: all_files(directory, document))
