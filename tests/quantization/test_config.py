from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantkit.errors import UserError
from quantkit.quantization.config import QuantizationConfig, preset_of
from quantkit.quantization.goal import Goal
from quantkit.quantization.ptq_config import PRESETS, PTQConfig

CONFIGS = st.builds(
    QuantizationConfig,
    num_samples=st.none() | st.integers(1, 10_000),
    method=st.sampled_from(["minmax", "percentile:99.9", "entropy", "mse"]),
    exclude=st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)))).map(tuple),
    dtype=st.sampled_from(["auto", "int8", "uint8"]),
    search_minutes=st.floats(0, 1e6),
    goal=st.none() | st.builds(Goal, st.floats(0, 100), st.none() | st.floats(0.1, 100)),
)
SPEED = st.sampled_from([{}, {"never_slower": True}, {"never_slower": True, "speed_batch": 16}])
ALGORITHMS = st.sampled_from([{}, {"preset": "best"}, {"algorithms": PTQConfig(bias=True, num_samples=5)}])


@given(CONFIGS, ALGORITHMS, SPEED)
def test_a_file_holds_all_of_it(
    tmp_path_factory: pytest.TempPathFactory, config: QuantizationConfig, chosen: dict[str, Any], speed: dict[str, Any]
) -> None:
    config = replace(config, **chosen, **speed)
    path = tmp_path_factory.mktemp("config") / "config.toml"
    config.write(path)
    assert QuantizationConfig.read(path) == config


def test_what_a_file_leaves_out_has_its_default(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("")
    assert QuantizationConfig.read(path) == QuantizationConfig()
    path.write_text('preset = "fast"\n[goal]\nmin_speedup = 2\n')
    assert QuantizationConfig.read(path) == QuantizationConfig(preset="fast", goal=Goal(min_speedup=2))


def test_the_file_is_short_and_readable() -> None:
    config = QuantizationConfig(num_samples=100, exclude=("*_dense0*",), preset="best", goal=Goal(0.3))
    assert config.toml == (
        'method = "mse"\ndtype = "auto"\nnum_samples = 100\nexclude = ["*_dense0*"]\npreset = "best"\n'
        "search_minutes = 10.0\n\n[goal]\nmax_drop = 0.3\n"
    )
    assert tomllib.loads(config.toml)["goal"] == {"max_drop": 0.3}


def test_one_line_tells_what_is_not_the_default() -> None:
    assert repr(QuantizationConfig()) == "QuantizationConfig()"
    config = QuantizationConfig(preset="best", algorithms=None, num_samples=3)
    assert repr(config) == "QuantizationConfig(num_samples=3, preset='best')"
    assert repr(PTQConfig(bias=True, num_samples=4)) == "PTQConfig(bias=True, num_samples=4)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("num_sample = 3", "at num_sample: there is no such key"),
        ('num_samples = "3"', "at num_samples: Input should be a valid integer"),
        ("num_samples = 0", "num_samples is 0; give a whole number from 1 up"),
        ('method = "kl"', "unknown calibration method 'kl'"),
        ('preset = "better"', "at preset: Input should be 'none', 'fast', 'balanced' or 'best'"),
        ('preset = "fast"\n[algorithms]\nbias = true', "both a preset and algorithms"),
        ("[algorithms]\nbia = true", "at algorithms.bia: there is no such key"),
        ("[goal]", "a goal needs a max_drop"),
        ("[goal]\nmax_drop = nan", "a drop of at most nan was"),
        ('never_slower = "yes"', "at never_slower: Input should be a valid boolean"),
        ("speed_batch = 8", "speed_batch is 8, and nothing is timed without never_slower; give both or neither"),
        ("never_slower = true\nspeed_batch = 0", "speed_batch is 0; give a whole number from 1 up, such as 8"),
        ("never_slower = true\n[goal]\nmin_speedup = 2", "give one of them, or a max_drop as well"),
        ("search_minutes = inf", "search_minutes is inf"),
        ("num_samples = 1979-05-27", "not valid TOML of texts, numbers and tables"),
        ("exclude = 'x'", "at exclude: "),
        ("[algorithms]\nbias = true\nnum_samples = 0", "num_samples is 0; give a whole number from 1 up"),
        ("[algorithms]\nnum_samples = -3", "num_samples is -3; give a whole number from 0 up"),
        ("x", "not valid TOML"),
    ],
)
def test_a_faulty_file_is_refused_by_key(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=told) as refused:
        QuantizationConfig.read(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read configuration"):
        QuantizationConfig.read(tmp_path / "config.toml")


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    config = QuantizationConfig(
        num_samples=np.int64(3),  # type: ignore[arg-type]
        goal=Goal(np.float32(0.5)),  # type: ignore[arg-type]
        algorithms=PTQConfig(bias=True, num_samples=np.int32(4)),  # type: ignore[arg-type]
    )
    config.write(tmp_path / "config.toml")
    assert QuantizationConfig.read(tmp_path / "config.toml") == config


def test_faulty_values_are_refused() -> None:
    with pytest.raises(UserError, match=r"give a tuple, such as \('Pooling',\)"):
        QuantizationConfig(exclude="Pooling")  # type: ignore[arg-type]
    faulty: list[tuple[str, dict[str, Any]]] = [
        ("num_samples is '3'", {"num_samples": "3"}),
        ("num_samples is 2.5", {"num_samples": 2.5}),
        ("num_samples is True", {"num_samples": True}),
        ("method is 3", {"method": 3}),
        ("exclude is None", {"exclude": None}),
        (r"exclude is \[1\]", {"exclude": [1]}),
        ("algorithms is 'best'", {"algorithms": "best"}),
        ("goal is 1.0", {"goal": 1.0}),
        ("never_slower is 1; give True or False", {"never_slower": 1}),
        ("speed_batch is 2.5", {"speed_batch": 2.5, "never_slower": True}),
        ("search_minutes is '1'", {"search_minutes": "1"}),
        ("search_minutes is larger than every float", {"search_minutes": 10**400}),
        (r"unknown preset \['best'\]", {"preset": ["best"]}),
    ]
    for message, values in faulty:
        with pytest.raises(UserError, match=message):
            QuantizationConfig(**values)
    with pytest.raises(UserError, match="max_drop is '1'"):
        Goal("1")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="max_drop is larger than every float; give a number"):
        Goal(10**400)
    with pytest.raises(UserError, match="bias is 1; give True or False"):
        PTQConfig(bias=1)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="unknown preset 'most'"):
        QuantizationConfig(preset="most")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="unknown type of quantized inputs 'int4'"):
        QuantizationConfig(dtype="int4")  # type: ignore[arg-type]
    assert QuantizationConfig(exclude=["Pooling"]).exclude == ("Pooling",)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_known_by_their_techniques(name: str) -> None:
    assert preset_of(PRESETS[name]) == name  # type: ignore[index]
    assert preset_of(PTQConfig(bias=True, num_samples=3)) is None
