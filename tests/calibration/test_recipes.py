"""The tables that ship: made anew as their recipes say, and matched to nothing but what they were made for."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.calibration.mse import _PER_OCTAVE, _REFINED
from quantkit.calibration.recipes import Recipe, find_recipe, read_recipe, recipes
from quantkit.calibration.table import CalibrationTable, read_table
from quantkit.errors import UserError
from quantkit.files.files import sha256_of, shipped
from tests.requirements import REAL_DATA, requires

RECIPES = {recipe.network: recipe for recipe in recipes()}

# Where real data lie in QUANTKIT_REAL_DATA.
FOLDERS = {".params": "weights", ".npz": "cifar10"}


def made(recipe: Recipe, folder: Path) -> CalibrationTable:
    """The table that the recipe's command makes of its files, in ``folder``."""
    from click.testing import CliRunner

    from quantkit.cli.main import cli

    for needed in (recipe.weights, recipe.data):
        if needed is not None:
            requires("real-data")
            source = REAL_DATA / FOLDERS[Path(needed.file).suffix] / needed.file
            assert sha256_of(source) == needed.sha256
            (folder / needed.file).symlink_to(source)
    program, *arguments = shlex.split(recipe.command)
    assert program == "quantkit"
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.stderr
    return read_table(folder / arguments[arguments.index("--out") + 1])


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("network", sorted(RECIPES))
def test_the_command_makes_the_table(network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept, again = RECIPES[network].table, made(RECIPES[network], tmp_path)
    assert replace(again, data_name="", ranges={}) == replace(kept, data_name="", ranges={})
    assert again.ranges.keys() == kept.ranges.keys()
    # Engines and processors add in other orders, so that of two neighbouring thresholds the other may be the best.
    neighbour = 2 ** (2 / (_REFINED - 1) / _PER_OCTAVE) - 1
    for tensor, bounds in again.ranges.items():
        expected = kept.ranges[tensor].low, kept.ranges[tensor].high
        assert (bounds.low, bounds.high) == pytest.approx(expected, rel=1.001 * neighbour), tensor


def test_every_table_has_its_recipe() -> None:
    folder = shipped("calibration")
    assert {path.stem for path in folder.glob("*.json")} == {path.stem for path in folder.glob("*.toml")}
    assert len(RECIPES) == len(list(folder.glob("*.toml")))
    assert all(recipe.table.data_name == recipe.images for recipe in recipes())


def test_a_table_is_found_by_what_it_was_made_for() -> None:
    for recipe in recipes():
        assert find_recipe(recipe.table.graph_sha256, "mse") is recipe
        assert find_recipe(recipe.table.graph_sha256, "entropy") is None
    assert find_recipe("0" * 64, "mse") is None


@pytest.mark.usefixtures("engine")
def test_other_weights_and_another_fusion_have_no_table() -> None:
    from quantkit.fusion.fuse import RULES, fuse
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.load import load_model
    from quantkit.quantization.algorithms.stage import plan
    from quantkit.quantization.calibrate import shipped_recipe

    model = load_model("digits_resnet20_v1")
    source = fuse_model(model, "digits:train")
    recipe = shipped_recipe(source)
    assert recipe is RECIPES["digits_resnet20_v1"]
    name, value = next((name, value) for name, value in model.graph.params.items() if name.endswith("weight"))
    nudged = {**model.graph.params, name: np.nextafter(value, np.float32(np.inf))}
    otherwise: dict[str, Any] = {
        "weights": fuse_model(replace(model, graph=replace(model.graph, params=nudged)), "digits:train"),
        "fusion": replace(source, fused=fuse(model.graph, model.input_shape, RULES[:-1])),
    }
    for what, other in otherwise.items():
        assert shipped_recipe(other) is None, what
        with pytest.raises(UserError, match="made for another network or other weights"):
            plan(other, recipe.table)


@pytest.mark.usefixtures("engine")
def test_inputs_of_other_values_or_another_size_have_no_table() -> None:
    from quantkit.fusion.fused_model import fuse_model
    from quantkit.models.load import load_model
    from quantkit.quantization.calibrate import shipped_recipe

    source = fuse_model(load_model("digits_resnet20_v1"), "digits:train")
    preprocess = source.model.preprocess
    assert preprocess is not None and preprocess.crop is not None
    for change, ships in (
        ({"resize": 40}, True),
        ({"scale": 1.0}, False),
        ({"mean": (0.4, 0.5, 0.5)}, False),
        ({"rotate180": True}, False),
    ):
        other = replace(source.model, preprocess=replace(preprocess, **change))
        assert (shipped_recipe(replace(source, model=other)) is not None) == ships, change
    larger = replace(source.model, input_shape=(3, 64, 64))
    assert shipped_recipe(replace(source, model=larger)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('network = "a"', "not valid at 'images'"),
        ("network = ", "cannot read recipe"),
        ('network = "a"\nimages = "b"\nsamples = "builtin"\ncommand = "c"\nquantkit = "0"\nrun = "rm"', "at 'run'"),
        ('network = "a"\nimages = "b"\nsamples = "builtin"\ncommand = "c"\nquantkit = "0"', "cannot read calibration"),
    ],
)
def test_a_damaged_recipe_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "net.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_recipe(path)


def test_a_recipe_reads_only_the_table_beside_it(tmp_path: Path) -> None:
    for end in (".toml", ".json"):
        shutil.copy(shipped("calibration") / f"cifar_resnet20_v1{end}", tmp_path / f"other{end}")
    recipe = read_recipe(tmp_path / "other.toml")
    assert recipe == RECIPES["cifar_resnet20_v1"]
    assert str(recipe) == "table shipped for these weights, from 500 CIFAR-10 training images"
