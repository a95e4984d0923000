"""A text run in pieces, with the states that each piece leaves, in every engine; in a process without VNNI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.deployment import step_run

ROOT = Path(__file__).resolve().parents[2]
ENGINES = ("onnxruntime", "openvino")

pytestmark = pytest.mark.requires("onednn", "onnx", "onnxruntime", "openvino")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Any:
    env = {name: value for name, value in os.environ.items() if name != "DNNL_MAX_CPU_ISA"}
    command = [sys.executable, "-m", step_run.__name__, str(tmp_path_factory.mktemp("step") / "int8"), *ENGINES]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_in_int8_pieces_are_the_whole_text_bit_for_bit(result: Any) -> None:
    assert result["int8"] == 2
    assert result["engines"]["mxnet"]["largest_difference"] == 0


def test_int8_costs_little_perplexity_and_forgetting_costs_much(result: Any) -> None:
    assert result["whole"] < 1.01 * result["exact"]
    assert result["forgetting"] > 1.2 * result["exact"]


@pytest.mark.parametrize("engine", ENGINES)
def test_other_engines_hand_states_on_too(engine: str, result: Any) -> None:
    assert result["engines"][engine]["perplexity"] == pytest.approx(result["exact"], rel=0.01)


@pytest.mark.parametrize("engine", ["mxnet", *ENGINES])
def test_the_first_piece_begins_as_a_prediction_does(engine: str, result: Any) -> None:
    assert result["engines"][engine]["begins_as_predict"]


def test_the_manifest_says_which_input_follows_which_output(result: Any) -> None:
    # The one that knows of language models.
    assert result["version"] == 9
    (state, cell) = result["states"]
    assert (state[2], cell[2]) == ([2, 176], [2, 176])
    assert [state[1], cell[1]] == result["outputs"][1:]
    assert result["notes"] == [
        f"the initial states {state[0]!r}, {cell[0]!r} are inputs, and zero where a sequence begins"
    ]


def test_the_bundle_is_sound_in_every_engine(result: Any) -> None:
    assert [(name, why) for name, ok, why in result["checks"] if not ok] == []
    (signature,) = (why for name, _, why in result["checks"] if name == "signature")
    assert f"state {result['states'][0][0]!r}" in signature
