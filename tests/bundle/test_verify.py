from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest

from quantkit.bundle import read_manifest, verify_bundle
from quantkit.bundle.engine import present_engine
from quantkit.bundle.verify import Check
from quantkit.files.temporary import temporary_name
from quantkit.formats.mxnet.params import read_params, write_params


def failures(directory: Path) -> dict[str, str]:
    """The failed checks of a bundle: what each says by its name."""
    verification = verify_bundle(directory)
    failed = {check.name: check.why for check in verification.checks if not check.ok}
    assert verification.ok == (not failed)
    return failed


def rewrite_params(directory: Path, change: Callable[[dict[str, np.ndarray]], Any]) -> None:
    params = read_params(directory / "model-0000.params")
    change(params)
    with (directory / "model-0000.params").open("wb") as file:
        write_params(file, params)


def rewrite_sample(directory: Path, factor: float = 1.0, shift: float = 0.0, at: Optional[int] = None) -> None:
    """Scale the stored output, and shift its value at one place by ``shift`` times the largest."""
    with np.load(directory / "sample.npz") as archive:
        data, output = archive["input"], archive["output0"] * np.float32(factor)
    if at is not None:
        output[0, at] += np.float32(shift) * np.abs(output).max()
    np.savez(directory / "sample.npz", input=data, output0=output)


def test_a_good_bundle_passes_every_check(written: Path) -> None:
    assert failures(written) == {}
    names = [check.name for check in verify_bundle(written).checks]
    files = sorted(path.name for path in written.iterdir() if path.name != "manifest.json")
    assert names[0] == "manifest"
    assert names[1 : 1 + len(files)] == [f"file {name}" for name in files]
    assert names[1 + len(files) : -1] == [
        "no other files",
        "signature",
        *(["configuration"] if (written / "config.toml").exists() else []),
        "quantization",
    ]
    assert names[-1].startswith("sample ")


def test_what_is_no_bundle_fails(tmp_path: Path) -> None:
    assert list(failures(tmp_path)) == ["manifest"]


@pytest.mark.parametrize("name", ["model-0000.params", "model-symbol.json", "labels.txt"])
def test_an_altered_file_fails_and_the_network_is_not_run(bundle: Path, name: str) -> None:
    content = bytearray((bundle / name).read_bytes())
    content[-1] ^= 1
    (bundle / name).write_bytes(content)
    assert failures(bundle) == {
        f"file {name}": "was changed: its hash differs",
        "network": "not run: the files are not those that were written",
    }


def test_unexpected_files_fail(bundle: Path) -> None:
    for name in ("more.bin", "extra.bin"):
        (bundle / name).write_bytes(b"")
    assert failures(bundle)["no other files"] == "not in the manifest: extra.bin, more.bin"


def test_an_output_of_another_shape_fails(
    bundle: Path, edit: Callable[..., None], resign: Callable[[Path], None]
) -> None:
    """Manifest and sample agree on it, the network does not."""
    with np.load(bundle / "sample.npz") as archive:
        np.savez(bundle / "sample.npz", input=archive["input"], output0=archive["output0"][:, :5])
    resign(bundle)
    edit(bundle, lambda manifest: manifest["outputs"][0].update(shape=[5]))
    assert not sample_check(bundle).ok
    assert "deviates by inf" in sample_check(bundle).why


def drop_first(params: dict[str, np.ndarray]) -> None:
    del params[next(iter(params))]


@pytest.mark.parametrize(
    ("change", "check", "why"),
    [
        (lambda params: params.update({"arg:spare": np.ones(1, np.float32)}), "signature", "agree on 'arg:spare'"),
        (lambda params: params.update({"aux:" + n[4:]: params.pop(n) for n in list(params)[:1]}), "signature", "agree"),
        (drop_first, "network", "the manifest says 'data'"),
    ],
)
def test_parameters_that_do_not_fit_the_symbol_fail(
    bundle: Path, resign: Callable[[Path], None], change: Any, check: str, why: str
) -> None:
    rewrite_params(bundle, change)
    resign(bundle)
    assert why in failures(bundle)[check]


@pytest.mark.parametrize(
    ("change", "check", "why"),
    [
        (lambda m: m["input"].update(name="image"), "network", "reads 'data', the manifest says 'image'"),
        (lambda m: m["outputs"][0].update(name="other"), "signature", "the manifest says ['other']"),
        (
            lambda m: m["outputs"][0].update(scores="softmax"),
            "signature",
            "ends in no scores, the manifest says softmax",
        ),
        (lambda m: m["outputs"][0].update(shape=[11]), "network", "does not fit the manifest"),
        (lambda m: m["input"].update(shape=[3, 16, 15]), "network", "card.toml describes"),
    ],
)
def test_a_manifest_that_contradicts_the_network_fails(
    bundle: Path, edit: Callable[..., None], change: Any, check: str, why: str
) -> None:
    edit(bundle, change)
    assert why in failures(bundle)[check]


def sample_check(directory: Path) -> Check:
    return verify_bundle(directory).checks[-1]


@pytest.mark.parametrize(("deviation", "ok"), [(2e-5, True), (5e-4, False), (float("nan"), False)])
def test_on_the_same_engine_only_float_noise_is_allowed(
    bundle: Path, resign: Callable[[Path], None], deviation: float, ok: bool
) -> None:
    rewrite_sample(bundle, shift=deviation, at=3)
    resign(bundle)
    assert sample_check(bundle).ok is ok


@pytest.mark.parametrize(("steps", "ok"), [(0.7, True), (1.5, False)])
@pytest.mark.parametrize("part", ["mxnet", "isa"])
def test_another_engine_may_deviate_by_one_step_of_8_bits_in_int8_only(
    bundle: Path, edit: Callable[..., None], resign: Callable[[Path], None], steps: float, ok: bool, part: str
) -> None:
    rewrite_sample(bundle, shift=-steps / 127, at=2)
    resign(bundle)
    edit(bundle, lambda manifest: manifest["engine"].update({part: "another"}))
    int8 = bundle.joinpath("calibration.json").exists()
    check = sample_check(bundle)
    assert check.ok is (ok and int8)
    assert "another" in check.why
    assert ("VNNI" in check.why) is (part == "isa" and int8 and not check.ok)


def test_weights_that_compute_something_else_fail(bundle: Path, resign: Callable[[Path], None]) -> None:
    rewrite_sample(bundle, factor=1.01)
    resign(bundle)
    (name,) = failures(bundle)
    assert name.startswith("sample ")


def test_all_that_is_wrong_with_a_signature_is_told(
    bundle: Path, edit: Callable[..., None], resign: Callable[[Path], None]
) -> None:
    output = read_manifest(bundle).outputs[0].name
    rewrite_params(bundle, lambda params: params.update({"arg:spare": np.ones(1, np.float32)}))
    resign(bundle)
    edit(bundle, lambda manifest: manifest["outputs"][0].update(name="other"))
    # The sample is not run.
    assert verify_bundle(bundle).checks[-1].name == "signature"
    assert failures(bundle)["signature"] == (
        "model-0000.params and model-symbol.json do not agree on 'arg:spare'; "
        f"model-symbol.json puts out ['{output}'], the manifest says ['other']"
    )


@pytest.mark.parametrize(("deviation", "ok"), [(0.4, True), (0.6, False)])
def test_networks_that_amplify_rounding_may_deviate_as_far_as_the_numeric_check_allowed(
    bundle: Path, edit: Callable[..., None], resign: Callable[[Path], None], deviation: float, ok: bool
) -> None:
    rewrite_sample(bundle, shift=-deviation, at=0)
    resign(bundle)
    edit(bundle, lambda manifest: manifest["fusion"].update(allowed=0.5))
    check = sample_check(bundle)
    assert check.ok is ok
    assert check.why.endswith("of the largest value, 0.5 is allowed")


def test_where_another_engine_deviates_the_steps_are_told(
    bundle: Path, edit: Callable[..., None], resign: Callable[[Path], None]
) -> None:
    rewrite_sample(bundle, shift=-3 / 127, at=2)
    resign(bundle)
    edit(bundle, lambda manifest: manifest["engine"].update(mxnet="0.1", isa="sse0"))
    why, engine = sample_check(bundle).why, present_engine()
    assert f", stored by mxnet 0.1 (sse0), computed by mxnet {engine.mxnet} ({engine.isa}): deviates by " in why
    assert why.startswith("a built-in image, stored by")
    if bundle.joinpath("calibration.json").exists():
        # Of the largest value stored, which the shift may have changed.
        assert re.search(r"deviates by 0\.02\d? \([23](\.\d)? steps of 8 bits\) of the largest value, 0\.0079 is", why)
        assert "is allowed; without VNNI, INT8 products are added in 16 bits and can saturate" in why
    else:
        assert why.endswith("of the largest value, 0.0001 is allowed")


def test_samples_of_older_bundles_are_of_the_calibration(bundle: Path, edit: Callable[..., None]) -> None:
    edit(bundle, lambda manifest: manifest.pop("sample", None))
    of = " of arrays" if bundle.joinpath("calibration.json").exists() else ""
    assert sample_check(bundle).why.startswith(f"an image{of}, stored by")


def test_a_damaged_manifest_says_so_and_no_more(bundle: Path) -> None:
    (bundle / "manifest.json").write_text("{")
    verification = verify_bundle(bundle)
    assert [(check.name, check.ok) for check in verification.checks] == [("manifest", False)]
    assert "is damaged at its beginning" in verification.checks[0].why


def test_what_another_process_is_writing_is_no_other_file(bundle: Path) -> None:
    temporary_name(bundle / "model.onnx").write_text("")
    assert verify_bundle(bundle).ok
