"""The accuracy suites, their tables, and the processes of the other quantizers."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.benchmark.accuracy.forms import UNFUSED
from quantkit.benchmark.accuracy.rows import DEFAULT_FORM, PerImage, Row, document
from quantkit.benchmark.accuracy.suite import configurations
from quantkit.benchmark.builds.recipes import PEERS_SCRIPT
from quantkit.errors import UserError
from quantkit.evaluation.paired import paired
from quantkit.files.files import shipped
from quantkit.quantization.ptq_config import PRESETS, PTQConfig
from tests.requirements import requires

TECHNIQUES = [field.name for field in fields(PTQConfig) if field.type in ("bool", bool)]


def suite(name: str) -> dict[str, Any]:
    return tomllib.loads((shipped("benchmarks") / f"{name}.toml").read_text())


def rows() -> list[Any]:
    """FP32, the default preset, and two modes of one peer that disagree with FP32 about 1, 12 and 3 of 100 images."""

    def images(wrong: int) -> Any:
        same = np.arange(100) >= wrong
        return PerImage(same, np.ones(100, bool), same, np.where(same, 1.0, 0.5))

    return [
        Row("net", UNFUSED, images=images(0)),
        Row("net", DEFAULT_FORM, 10, images(1), 2.5),
        Row("net", "Other rough", 10, images(12), 1.5, "Other"),
        Row("net", "Other fine", 10, images(3), 1.5, "Other"),
        Row("net", "Third", 10, peer="Third", failure="exit code 1: no | memory"),
    ]


def _run(found: list[Any]) -> dict[str, Any]:
    """A run of these rows, as JSON has it."""
    return dict(json.loads(json.dumps({"command": "command", "host": {"cpu": "x"}, "rows": document(found)})))


def test_the_ablation_has_every_technique_alone_and_left_out_of_balanced() -> None:
    ablation = suite("ablation")
    found = list(configurations(ablation["presets"], ablation["algorithms"]).values())
    for technique in TECHNIQUES:
        if PTQConfig(**{technique: True}).works:
            assert PTQConfig(**{technique: True}, num_samples=32) in found, f"{technique} alone is not in ablation.toml"
        if getattr(PRESETS["balanced"], technique):
            left_out = replace(PRESETS["balanced"], **{technique: False})
            assert left_out in found, f"balanced without {technique} is not in ablation.toml"


def test_the_summary_has_each_peers_best_mode() -> None:
    from accuracy_tables import markdown

    found = markdown(_run(rows()))
    (line,) = [line for line in found.split("All rows")[0].splitlines() if line.startswith("| net |")]
    assert "| Other | Other fine | 97.00, 0.98500 | +2.00 [" in line
    assert line.endswith("| not distinguishable | not distinguishable |")
    (rough,) = [line for line in found.splitlines() if "Other rough" in line]
    assert rough.endswith(" ahead |")
    assert "failed: exit code 1: no / memory" in found


def test_our_file_stands_beside_the_engines_own_quantizer() -> None:
    from accuracy_tables import markdown

    known = rows()
    own = replace(known[1], form=f"{DEFAULT_FORM}, ONNX in Other", engine="Other")
    elsewhere = replace(own, form=f"{DEFAULT_FORM}, ONNX in Third", engine="Third")
    found = markdown(_run([*known, own, elsewhere])).split("All rows")[0].splitlines()
    (line,) = [line for line in found if "ONNX in" in line]
    assert line.startswith(
        "| net | 10 | quantkit preset balanced, ONNX in Other | 99.00, 0.99500 | Other fine | 97.00, 0.98500 | +2.00 ["
    )
    assert [row["engine"] for row in document([known[0], own])] == [None, "Other"]


def test_figures_follow_from_the_arrays() -> None:
    """Anyone can recompute them from what is kept of each image."""
    from accuracy import _arrays

    arrays = _arrays(rows())
    assert list(arrays["net/forms"]) == [
        "FP32 unfused, 0", "quantkit preset balanced, 10", "Other rough, 10", "Other fine, 10",
    ]  # fmt: skip
    same = np.unpackbits(arrays["net/same"], axis=1, count=100).astype(bool)
    found = {row["form"]: row for row in document(rows())}
    for form, bits, cosines in zip(arrays["net/forms"], same, arrays["net/one_less_cosine"]):
        row = found[str(form).rsplit(", ", 1)[0]]
        assert row["agreement"] == pytest.approx(100 * bits.mean())
        assert row["changed"] == (~bits).sum()
        assert row["cosine"] == pytest.approx(1 - cosines.astype(float).mean(), abs=1e-4)
    comparison = found["Other rough"]["default_agreement_less_this"]
    assert comparison["p_value"] == paired(same[1], same[2]).p_value
    assert found["Other rough"]["accuracy_less_fp32"]["other_only"] == 12
    assert found["Third"]["failure"] == "exit code 1: no | memory"
    json.dumps(list(found.values()))


FAKE = """#!{python}
import json, sys
import numpy as np
assert sys.argv.pop(1) == "-I"
if len(sys.argv) == 2:
    modes = [
        dict(mode="as it is", peer="P", int8=False),
        dict(mode="fine", peer="P", int8=True),
        dict(mode="broken", peer="P", int8=True),
    ]
    print(json.dumps(dict(versions=dict(p="1"), modes=modes)))
elif sys.argv[2] == "broken":
    sys.exit("it broke")
else:
    calibration, test = np.load(sys.argv[4]), np.load(sys.argv[5])
    assert open(sys.argv[3], "rb").read()
    np.savez(sys.argv[6], output0=test.reshape(len(test), -1)[:, :5], output1=test, seconds=len(calibration))
"""


def test_a_peer_that_fails_is_a_result(tmp_path: Path, engine: None) -> None:
    requires("onnx")
    from accuracy_peers import Peers

    from quantkit.models.load import load_model

    python = tmp_path / "python"
    python.write_text(FAKE.format(python=sys.executable))
    python.chmod(0o755)
    peers = Peers(python)
    model = load_model("digits_resnet20_v1")
    calibration, test = (np.random.default_rng(0).normal(size=(count, 3, 32, 32)) for count in (2, 4))
    fine, broken = peers.int8(model, calibration, test)
    assert (fine.mode, fine.seconds) == ("fine", 2)
    np.testing.assert_array_equal(fine.outputs[0], test.reshape(4, -1)[:, :5])
    np.testing.assert_array_equal(fine.outputs[1], test)
    assert broken.outputs == "exit code 1: it broke"
    assert [each.mode for each in peers.fp32(model, test)] == ["as it is"]


def test_our_own_file_runs_in_the_peers_engines(tmp_path: Path, digits_int8: Any) -> None:
    requires("onnx")
    from accuracy_peers import Peers

    from quantkit.diagnosis.parity.onnx_file import parse

    python = tmp_path / "python"
    keep = tmp_path / "kept.onnx"
    script = FAKE.replace('assert open(sys.argv[3], "rb").read()', f"open({str(keep)!r}, 'wb').write(READ)")
    python.write_text(script.replace("READ", "open(sys.argv[3], 'rb').read()").format(python=sys.executable))
    python.chmod(0o755)
    test = np.random.default_rng(0).normal(size=(4, 3, 32, 32))
    (found,) = Peers(python).own_file(digits_int8, test)
    assert (found.mode, found.peer) == ("as it is", "P")
    assert "int8" in parse(keep.read_bytes()).layers.values()


def test_versions_of_the_peers_are_known(tmp_path: Path) -> None:
    from accuracy_peers import Peers

    python = tmp_path / "python"
    python.write_text(FAKE.format(python=sys.executable))
    python.chmod(0o755)
    peers = Peers(python)
    assert peers.versions == {"p": "1"}


def test_a_missing_interpreter_and_missing_packages_are_told(tmp_path: Path) -> None:
    from accuracy_peers import Peers

    with pytest.raises(UserError, match=r"make \.venv-peers/installed"):
        Peers(tmp_path / "python")
    lacking = tmp_path / "lacking"
    lacking.write_text("#!/bin/sh\necho PackageNotFoundError: nncf >&2\nexit 1\n")
    lacking.chmod(0o755)
    with pytest.raises(UserError, match=r"PackageNotFoundError: nncf.*pip install 'quantkit\[peers\]'"):
        Peers(lacking)


def test_the_peers_script_names_its_modes_where_one_is_unknown() -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(PEERS_SCRIPT), "x", *"abcd"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ONNX Runtime MinMax" in done.stderr
