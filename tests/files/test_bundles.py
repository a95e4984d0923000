from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.files.bundles import is_bundle


def test_a_folder_with_a_manifest_is_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert is_bundle(tmp_path)
    assert is_bundle(str(tmp_path))


@pytest.mark.parametrize("spec", ["resnet50", "", "a\0b", "x" * 5000, None, 3, b"bundle"])
def test_what_is_none(spec: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bundle" / "manifest.json").mkdir(parents=True)
    assert not is_bundle(spec)
    assert not is_bundle(tmp_path / "bundle")
