"""Suites of accuracy: what files may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.benchmark.accuracy.suite import (
    accuracy_suites,
    configurations,
    find_accuracy_suite,
    read_accuracy_suite,
)
from quantkit.benchmark.suites.suite import shipped_suites
from quantkit.errors import UserError
from quantkit.files.files import shipped
from quantkit.quantization.ptq_config import PTQConfig

SUITE = """
presets = ["fast"]

[data.digits]
test = "digits:test"
calibration = "digits:train"

[preprocess.plain]
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]

[[network]]
model = "digits_resnet20_v1"
data = "digits"
preprocess = "plain"
"""


def suite(tmp_path: Path, old: str = "", new: str = "") -> Path:
    assert old in SUITE
    path = tmp_path / "mine.toml"
    path.write_text(SUITE.replace(old, new, 1))
    return path


def test_suites_that_ship_are_whole_and_none_of_speed() -> None:
    assert "accuracy" in accuracy_suites()
    assert not accuracy_suites().keys() & shipped_suites().keys()
    for path in accuracy_suites().values():
        assert read_accuracy_suite(path).network


def test_a_suite_is_told_from_others(tmp_path: Path) -> None:
    path = suite(tmp_path)
    assert find_accuracy_suite(str(path)) == path
    assert find_accuracy_suite(str(suite(tmp_path, 'presets = ["fast"]'))) == path
    for other in (shipped("benchmarks") / "smoke.toml", shipped("models") / "zoo" / "accuracy.toml", tmp_path):
        assert find_accuracy_suite(str(other)) is None
    damaged = tmp_path / "damaged.toml"
    damaged.write_text("presets = [")
    assert find_accuracy_suite(str(damaged)) is None


def test_what_a_suite_says(tmp_path: Path) -> None:
    read = read_accuracy_suite(suite(tmp_path))
    (network,) = read.network
    assert (read.name, read.presets, read.data["digits"].calibration_samples) == ("mine", ("fast",), (32,))
    steps = read.steps(network)
    assert steps is not None and (steps.mean, steps.scale) == ((0.5, 0.5, 0.5), 255.0)
    assert read.part(["digits_resnet20_v1"]) == read.part([]) == read
    with pytest.raises(UserError, match="mine has no network 'other'; there are digits_resnet20_v1"):
        read.part(["other"])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('presets = ["fast"]', 'presets = ["fast"]\nfaster = true', "has no setting 'faster'"),
        ('presets = ["fast"]', 'presets = ["quick"]', "presets.0: Input should be 'none', 'fast'"),
        ('presets = ["fast"]', 'methods = ["median"]', "median"),
        ('presets = ["fast"]', 'stock_modes = ["mean"]', "stock_modes.0: Input should be 'naive' or 'entropy'"),
        ('presets = ["fast"]', "algorithms = [{ bias = true }]", "has no name"),
        ('presets = ["fast"]', 'algorithms = [{ name = "all", magic = true }]', "unknown technique 'magic' in 'all'"),
        ('presets = ["fast"]', 'presets = ["fast"]\nimages = 0', "images: Input should be greater than 0"),
        ('data = "digits"', 'data = "photos"', "has the data 'photos'; there are digits"),
        ('preprocess = "plain"', 'preprocess = "other"', "has the preprocessing 'other', which the suite does not"),
        ("std = [0.5, 0.5, 0.5]", "std = [0.5, 0.5, 0.0]", "std.2: Input should be greater than 0"),
        ('test = "digits:test"', 'test = "digits:test"\ncalibration_samples = []', "must be different numbers, not []"),
        ('test = "digits:test"', 'test = "digits:test"\ncalibration_samples = [8, 8]', "must be different numbers"),
        ('presets = ["fast"]', 'presets = ["fast", "fast"]', "two forms are called 'preset fast'"),
        (
            'presets = ["fast"]',
            'methods = ["mse"]\nalgorithms = [{ name = "mse", bias = true }]',
            "two forms are called 'mse'",
        ),
        ('presets = ["fast"]', "algorithms = [{ name = ['a'] }]", "has no name"),
        ("mean = [0.5, 0.5, 0.5]", "mean = 5", "mine.toml: preprocess.plain.mean: "),
        ('presets = ["fast"]', 'presets = ["fast"]\npreprocess.other = 5', "mine.toml: preprocess.other: "),
        ('test = "digits:test"', 'test = "digits:test"\nsplit = 1', "data.digits.split: there is no such key"),
        ('test = "digits:test"\n', "", "data.digits.test"),
        ("[[network]]", '[[network]]\nmodel = "a"\ndata = "digits"\n\n[[network]]\nshape = 1', "network.1"),
        ("[[network]]", '[[network]]\nmodel = "digits_resnet20_v1"\ndata = "digits"\n[[network]]', "is there twice"),
    ],
)
def test_faults_are_told(tmp_path: Path, old: str, new: str, problem: str) -> None:
    with pytest.raises(UserError) as error:
        read_accuracy_suite(suite(tmp_path, old, new))
    assert problem in str(error.value)


def test_a_suite_without_networks_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mine\.toml: there is no network"):
        read_accuracy_suite(suite(tmp_path, SUITE, 'presets = ["fast"]\nnetwork = []\ndata = {}'))


def test_techniques_stand_on_top_of_a_preset() -> None:
    entries = [{"name": "mine", "preset": "balanced", "bias": False}, {"name": "alone", "rounding": True}]
    found = configurations(["fast"], entries)
    assert list(found) == ["quantkit preset fast", "quantkit mine", "quantkit alone"]
    assert found["quantkit alone"] == PTQConfig(rounding=True)
    assert found["quantkit mine"].rounding and not found["quantkit mine"].bias
