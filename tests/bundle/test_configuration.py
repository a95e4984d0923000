"""A bundle's configuration and its manifest say the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from quantkit.bundle import read_bundle, verify_bundle
from quantkit.bundle.configuration import configuration_problem
from quantkit.bundle.manifest import Settings
from quantkit.bundle.quantized_model import QuantizedModel
from quantkit.errors import BundleError
from quantkit.quantization.config import QuantizationConfig
from quantkit.quantization.goal import Goal, MixedPrecision
from quantkit.quantization.ptq_config import NO_ALGORITHMS, PRESETS, PTQConfig
from tests.quantized import SPEED

MIXED = MixedPrecision(0.5, None, True, ("dense",), "agreement", 0.5, 6, "own")
SETTINGS = Settings("mse", 8, "photos", ("stem", "Pooling"), "int8", PRESETS["fast"], MIXED, None)
CONFIG = QuantizationConfig(8, "mse", ("Pooling",), "int8", "fast", goal=Goal(0.5))
TECHNIQUES = PTQConfig(channel_shift=True, bias=True, num_samples=3)


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        ({}, {}),
        ({"preset": None, "algorithms": TECHNIQUES}, {}),
        ({"preset": None}, {}),
        # The number of images is that of those there were, and photographs shift no channels of another table.
        ({}, {"algorithms": PTQConfig(bias=True, num_samples=8)}),
        ({"preset": None, "algorithms": PTQConfig(mirror=True)}, {"algorithms": NO_ALGORITHMS}),
        ({"goal": None}, {"mixed": None}),
        ({"search_minutes": 3.0}, {}),
        ({"never_slower": True, "speed_batch": 4}, {"speed": SPEED}),
    ],
)
def test_what_goes_together(config: dict[str, Any], settings: dict[str, Any]) -> None:
    assert configuration_problem(replace(CONFIG, **config), replace(SETTINGS, **settings), ("stem",)) is None


@pytest.mark.parametrize(
    ("config", "settings", "problem"),
    [
        ({"method": "minmax"}, {}, "its method is 'minmax' where the manifest has 'mse'"),
        ({"num_samples": None}, {}, "its num_samples is None where the manifest has 8"),
        ({"exclude": ()}, {}, "its exclude is ('stem',) where the manifest has ('stem', 'Pooling')"),
        ({"dtype": "auto"}, {}, "its dtype is 'auto'"),
        ({"goal": None}, {}, "its goal is None where the manifest has (0.5, None)"),
        ({"goal": Goal(0.5, 2.0)}, {}, "its goal is (0.5, 2.0)"),
        ({"never_slower": True}, {}, "its never_slower is 1 where the manifest has None"),
        ({"never_slower": True}, {"speed": SPEED}, "its never_slower is 1 where the manifest has 4"),
        ({}, {"speed": SPEED}, "its never_slower is None where the manifest has 4"),
        ({}, {"mixed": None}, "where the manifest has None"),
        ({"preset": "none"}, {}, "it asks for no algorithms where the manifest has bias, channel_shift"),
        ({}, {"algorithms": NO_ALGORITHMS}, "it asks for bias, channel_shift where the manifest has no algorithms"),
        ({"preset": "balanced"}, {}, "it asks for bias, channel_shift, mirror, refit, rounding where"),
    ],
)
def test_what_contradicts_itself(config: dict[str, Any], settings: dict[str, Any], problem: str) -> None:
    text = configuration_problem(replace(CONFIG, **config), replace(SETTINGS, **settings), ("stem",))
    assert text is not None
    assert problem in text


def test_the_configuration_of_a_bundle(written: Path, quantized: QuantizedModel) -> None:
    bundle = read_bundle(written)
    assert bundle.config == (quantized.config if bundle.manifest.kind == "int8" else None)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"minmax"', '"mse"', "its method is 'mse' where the manifest has 'minmax'"),
        ('"minmax"', '"most"', "most"),
        ('"minmax"', "[", "not valid TOML"),
    ],
)
def test_another_configuration_is_refused(
    quantized: QuantizedModel, tmp_path: Path, resign: Any, old: str, new: str, why: str
) -> None:
    path = quantized.save(tmp_path / "bundle")
    text = (path / "config.toml").read_text()
    (path / "config.toml").write_text(text.replace(old, new))
    resign(path)
    with pytest.raises(BundleError, match=r"config\.toml cannot be used: .*") as refused:
        _ = read_bundle(path).config
    assert why in str(refused.value)
    (failed,) = [check for check in verify_bundle(path).checks if not check.ok]
    assert (failed.name, failed.why) == ("configuration", str(refused.value))
