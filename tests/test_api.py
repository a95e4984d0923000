from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import quantkit
from tests.processes import environment

ENGINE = {"mxnet", "onnx", "gluoncv", "PIL", "skimage", "sklearn"}
HEAVY = ENGINE | {"scipy", "pydantic", "requests", "numpy", "click", "rich"}


def in_a_new_process(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_quantkit_is_lean() -> None:
    loaded = json.loads(in_a_new_process("import json, sys, quantkit; print(json.dumps(list(sys.modules)))"))
    assert {name.split(".")[0] for name in loaded} & HEAVY == set()
    assert [name for name in loaded if name.startswith("quantkit.")] == ["quantkit.host", "quantkit.host.telemetry"]


def test_importing_quantkit_is_fast() -> None:
    # Processor time, so that a busy machine does not count.
    program = "from time import process_time as now; t = now(); import quantkit; print(now() - t)"
    assert min(float(in_a_new_process(program)) for _ in range(3)) < 0.06


def test_the_public_names_load_no_engine() -> None:
    use = "[getattr(quantkit, name) for name in quantkit.__all__]"
    loaded = json.loads(in_a_new_process(f"import json, sys, quantkit; {use}; print(json.dumps(list(sys.modules)))"))
    assert {name.split(".")[0] for name in loaded} & ENGINE == set()


def test_every_public_name_is_there_and_listed() -> None:
    assert quantkit.__all__ == sorted(quantkit.__all__)
    for name in quantkit.__all__:
        assert getattr(quantkit, name) is not None
        assert name in dir(quantkit)


def test_type_checkers_see_every_public_name() -> None:
    source = Path(quantkit.__file__).read_text()
    seen = set(re.findall(r"^    from .* as (\w+)$", source, re.MULTILINE))
    assert seen | {"__version__"} == set(quantkit.__all__)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'quantise'"):
        quantkit.quantise  # noqa: B018


def test_no_subpackage_hides_a_public_name() -> None:
    rooms = {path.name for path in Path(quantkit.__file__).parent.iterdir() if path.is_dir()}
    assert not rooms & set(quantkit.__all__)


def test_the_version_is_the_package_s() -> None:
    project = Path(__file__).parents[1] / "pyproject.toml"
    assert f'\nversion = "{quantkit.__version__}"\n' in project.read_text()


def test_the_stages_of_the_api_make_a_bundle_that_predicts(int8_engine: None, tmp_path: Path) -> None:
    model = quantkit.load("digits_resnet20_v1")
    fused = quantkit.fuse(model, "digits:train")
    table = quantkit.calibrate(fused, "digits:train", 4)
    int8 = quantkit.lower(
        fused, table, quantkit.apply_algorithms(fused, table, quantkit.plan(fused, table), "digits:train")
    )
    assert isinstance(int8, quantkit.QuantizedModel)
    assert isinstance(fused, quantkit.FusedModel)
    assert isinstance(model, quantkit.Model)
    predictor = quantkit.load(int8.save(tmp_path / "digits"))
    assert isinstance(predictor, quantkit.Predictor)
    for sample in list(quantkit.images("digits:test"))[:5]:
        ((best,),) = predictor.classify(sample.image, top=1)
        assert best[0] == str(sample.label)


def test_a_directory_without_manifest_is_no_bundle(engine: None, tmp_path: Path) -> None:
    with pytest.raises(quantkit.errors.ModelError, match="is a folder"):
        quantkit.load(tmp_path)
