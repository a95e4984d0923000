from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.bundle import read_bundle, read_manifest
from quantkit.bundle.manifest_file import manifest_text
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.errors import BundleError

FILES = ["model-symbol.json", "model-0000.params", "card.toml", "labels.txt", "sample.npz", "operators.json"]
INT8_FILES = ["fused-symbol.json", "fused-0000.params", "quantization.json", "calibration.json", "config.toml"]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("damage", "message"), [(flip, "its hash differs"), (cut, "bytes where"), (Path.unlink, "is missing; copy")]
)
def test_every_damaged_file_is_named(bundle: Path, name: str, damage: Callable[[Path], Any], message: str) -> None:
    damage(bundle / name)
    with pytest.raises(BundleError, match=f"{name} .*{message}"):
        read_bundle(bundle)


@pytest.mark.parametrize("name", INT8_FILES)
def test_int8_bundles_have_further_files(quantized: QuantizedModel, name: str, tmp_path: Path, edit: Any) -> None:
    bundle = quantized.save(tmp_path / "bundle")
    flip(bundle / name)
    with pytest.raises(BundleError, match=f"{name} .*its hash differs"):
        read_bundle(bundle)
    edit(bundle, lambda manifest: manifest["files"].pop(name))
    with pytest.raises(BundleError, match=f"does not list {name}; write"):
        read_bundle(bundle)


@pytest.mark.parametrize("name", ["algorithms", "mixed", "speed"])
def test_the_settings_of_an_int8_bundle_are_complete(
    quantized: QuantizedModel, name: str, tmp_path: Path, edit: Any
) -> None:
    bundle = quantized.save(tmp_path / "bundle")
    edit(bundle, lambda manifest: manifest["settings"].pop(name))
    with pytest.raises(BundleError, match=rf"damaged at settings\.{name}"):
        read_bundle(bundle)


@pytest.mark.usefixtures("int8_engine")
@pytest.mark.parametrize("name", INT8_FILES[:3])
def test_the_quantized_network_of_a_bundle_is_the_one_that_was_lowered(
    digits_int8: QuantizedModel, name: str, tmp_path: Path, resign: Any
) -> None:
    bundle = digits_int8.save(tmp_path / "bundle")
    assert vars(read_bundle(bundle).network.plan) == vars(digits_int8.plan)
    (bundle / name).write_bytes((bundle / name).read_bytes()[:-10])
    resign(bundle)
    with pytest.raises(BundleError, match=r"quantization\.json with .* cannot be used"):
        _ = read_bundle(bundle).network


STATE = {"input": "state", "output": "next", "shape": [1, 8]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="zip"), r"damaged at format"),
        (lambda m: m.update(version=2), r"has version 2, but this quantkit reads versions 5 to 10"),
        (lambda m: m.update(task="magic"), r"damaged at task"),
        (lambda m: m.update(version=8, task="detection"), r"the manifest .* for detection; write the bundle again"),
        (lambda m: m.update(version=9, task="depth"), r"the manifest .* for depth; write the bundle again"),
        (lambda m: m.pop("version"), None),
        (lambda m: m.update(kind="int4"), r"damaged at kind"),
        (lambda m: m.update(surprise=1), r"damaged at surprise"),
        (lambda m: m["input"].update(dtype="float64"), r"damaged at input.dtype"),
        (lambda m: m["input"].update(shape=[3, 0, 32]), r"damaged at input.shape"),
        (lambda m: m["input"].update(shape=[3, 32, "32"]), r"damaged at input.shape"),
        (lambda m: m["input"].update(shape=[3, 32, 33]), r"card.toml describes"),
        (lambda m: m["input"].update(joined=[{"name": "a", "shape": [0]}]), r"damaged at input.joined.0.shape"),
        (lambda m: m["input"].update(joined=[{"name": "a", "shape": [3]}]), r"inputs in .* they have 3 values where"),
        (lambda m: m.update(outputs=[]), r"damaged at outputs"),
        (lambda m: m["outputs"][0].update(scores="tanh"), r"damaged at outputs.0.scores"),
        (lambda m: m.update(states=[STATE | {"shape": [1, 0]}]), r"damaged at states.0.shape"),
        (lambda m: m.update(states=[STATE | {"shape": [1, 1 << 30]}]), r"damaged at states.0.shape"),
        (lambda m: m.update(states=[STATE]), r"no output 'next' of shape \(1, 8\) for 'state'; write the bundle again"),
        (lambda m: m.pop("source"), r"damaged at source"),
        (lambda m: m["source"].update(weights="magic"), r"damaged at source.weights"),
        (lambda m: m["files"].pop("sample.npz"), r"does not list sample.npz; write"),
        (
            lambda m: [m["files"].pop(name) for name in ("sample.npz", "card.toml")],
            r"list card.toml, sample.npz; write",
        ),
        (lambda m: m["files"]["card.toml"].update(sha256="x"), r"damaged at files.card.toml.sha256"),
        (lambda m: m["files"].update({"../secret": m["files"]["card.toml"]}), r"damaged at files"),
        (lambda m: m["files"].update({"/etc/passwd": m["files"]["card.toml"]}), r"damaged at files"),
        (lambda m: m["files"].update({"..": m["files"]["card.toml"]}), r"damaged at files"),
        (lambda m: m["files"].update({"a\n": m["files"]["card.toml"]}), r"damaged at files"),
    ],
)
def test_an_edited_manifest_is_refused(bundle: Path, edit: Callable[..., None], change: Any, message: str) -> None:
    edit(bundle, change)
    if message is None:
        read_bundle(bundle)
        return
    with pytest.raises(BundleError, match=message):
        read_bundle(bundle)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"version": 5}'])
def test_a_manifest_that_is_none_is_refused(bundle: Path, content: bytes) -> None:
    (bundle / "manifest.json").write_bytes(content)
    place = "kind" if content.endswith(b"}") else "its beginning"
    with pytest.raises(BundleError, match=rf"manifest.json is damaged at {place}: .*; write the bundle again"):
        read_bundle(bundle)


def test_the_version_before_is_read(bundle: Path, edit: Callable[..., None]) -> None:
    assert read_bundle(bundle).manifest.notes == ()
    edit(bundle, lambda document: document.update(version=5))
    assert read_bundle(bundle).manifest.version == 5
    edit(bundle, lambda document: document.update(notes="no list"))
    with pytest.raises(BundleError, match="damaged at notes"):
        read_bundle(bundle)


def test_a_directory_without_manifest_is_no_bundle(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "absent"):
        with pytest.raises(BundleError, match=r"is not a bundle: cannot read manifest\.json \(No such file"):
            read_bundle(directory)


def test_a_bundle_may_be_moved(bundle: Path, tmp_path: Path) -> None:
    moved = Path(shutil.move(bundle, tmp_path / "elsewhere"))
    assert read_bundle(moved).graph.inputs == ("data",)


@pytest.mark.parametrize(
    ("name", "content", "access"),
    [
        ("model-symbol.json", b"{}", "graph"),
        ("model-0000.params", b"not parameters", "graph"),
        ("operators.json", b"[{}]", "operators"),
        ("sample.npz", b"PK not really", "sample"),
        ("card.toml", b"name = 1", None),
        ("labels.txt", b"one\n", None),
    ],
)
def test_a_wrong_file_with_a_right_hash_is_named(
    bundle: Path, resign: Callable[[Path], None], name: str, content: bytes, access: str
) -> None:
    (bundle / name).write_bytes(content)
    resign(bundle)
    with pytest.raises(BundleError, match=rf"bundle .*({name}|card.toml).* cannot be used"):
        opened = read_bundle(bundle)
        getattr(opened, access)


@pytest.mark.parametrize("labels", ["/proc/self/environ", "../secret", "notes.txt", "a/../labels.txt", "link"])
def test_the_card_of_a_bundle_names_only_files_of_the_manifest(
    bundle: Path, resign: Callable[[Path], None], labels: str
) -> None:
    (bundle.parent / "secret").write_text("secret\n" * 10)
    (bundle / "notes.txt").write_text("secret\n" * 10)
    (bundle / "link").symlink_to(bundle.parent / "secret")
    card = bundle / "card.toml"
    card.write_text(card.read_text().replace('labels = "labels.txt"', f'labels = "{labels}"'))
    resign(bundle)
    with pytest.raises(BundleError, match=r"card\.toml cannot be used: it names .* not in the manifest"):
        read_bundle(bundle)


@pytest.mark.parametrize("name", ["manifest.json", *FILES])
def test_a_link_out_of_the_bundle_is_refused(bundle: Path, name: str) -> None:
    (bundle / name).rename(bundle.parent / name)
    (bundle / name).symlink_to(bundle.parent / name)
    with pytest.raises(BundleError, match=rf"{name}.* is a link out of"):
        read_bundle(bundle)


@pytest.mark.parametrize("name", ["manifest.json", *FILES])
def test_a_pipe_in_the_place_of_a_file_does_not_block(bundle: Path, edit: Callable[..., None], name: str) -> None:
    if name != "manifest.json":
        empty = {"sha256": hashlib.sha256().hexdigest(), "size": 0}
        edit(bundle, lambda manifest: manifest["files"][name].update(empty))
    (bundle / name).unlink()
    os.mkfifo(bundle / name)
    with pytest.raises(BundleError, match=rf"{name}.* is not an ordinary file"):
        read_bundle(bundle)


def test_links_within_the_bundle_are_followed(bundle: Path) -> None:
    (bundle / "..data").mkdir()
    for name in FILES:
        (bundle / name).rename(bundle / "..data" / name)
        (bundle / name).symlink_to(f"..data/{name}")
    assert read_bundle(bundle).graph.inputs == ("data",)


def test_int8_bundles_need_their_calibration(bundle: Path, edit: Callable[..., None]) -> None:
    edit(bundle, lambda manifest: manifest["files"].pop("calibration.json", None))
    if "calibration" in {path.stem for path in bundle.iterdir()}:
        with pytest.raises(BundleError, match=r"does not list calibration\.json; write"):
            read_bundle(bundle)
    else:
        assert read_bundle(bundle).table is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(name="other"), r"card\.toml describes '.*' with input .*, the manifest 'other' with input"),
        (
            lambda m: m["input"].update(shape=[3, 32, 33]),
            r"the manifest '.*' with input \(3, 32, 33\); write the bundle",
        ),
    ],
)
def test_card_and_manifest_must_agree(bundle: Path, edit: Callable[..., None], change: Any, message: str) -> None:
    edit(bundle, change)
    with pytest.raises(BundleError, match=message):
        read_bundle(bundle)


@pytest.mark.parametrize("entry", ["symbol", "params"])
def test_the_card_of_a_bundle_names_no_other_network(bundle: Path, resign: Callable[[Path], None], entry: str) -> None:
    names = {"symbol": "model-symbol.json", "params": "model-0000.params"}
    shutil.copy(bundle / names[entry], bundle / "other")
    card = bundle / "card.toml"
    card.write_text(card.read_text().replace(f'"{names[entry]}"', '"other"'))
    resign(bundle)
    with pytest.raises(BundleError, match="it names 'other', which is not in the manifest"):
        read_bundle(bundle)


@pytest.mark.parametrize("labels", ['"cifar10"', str([f"label {number}" for number in range(10)])])
def test_the_card_of_a_bundle_may_name_classes_otherwise(
    bundle: Path, resign: Callable[[Path], None], labels: str
) -> None:
    card = bundle / "card.toml"
    card.write_text(card.read_text().replace('labels = "labels.txt"', f"labels = {labels}"))
    resign(bundle)
    assert read_bundle(bundle).labels[8] in ("ship", "label 8")


def test_numbers_that_json_has_not_are_not_written(written: Path) -> None:
    manifest = read_manifest(written)
    with pytest.raises(ValueError):
        manifest_text(replace(manifest, fusion=replace(manifest.fusion, difference=float("nan"))))


def test_what_the_disk_says_of_an_unreadable_file_is_told(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> str:
        raise OSError(5, "Input/output error", str(path))

    monkeypatch.setattr("quantkit.bundle.read.sha256_of", fail)
    with pytest.raises(BundleError, match=r" cannot be read \(Input/output error\); copy or write the bundle again$"):
        read_bundle(bundle)
