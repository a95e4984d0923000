"""INT8 LSTM layers in the engine, in processes of their own: oneDNN chooses its instructions once for each process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import pytest

from tests.backends.mxnet import int8_lstm_run, int8_lstm_states_run

ROOT = Path(__file__).resolve().parents[3]
VARIABLE = "DNNL_MAX_CPU_ISA"


def told(*arguments: str, isa: Optional[str] = None, module: ModuleType = int8_lstm_run) -> Any:
    env = {name: value for name, value in os.environ.items() if name != VARIABLE}
    if isa is not None:
        env[VARIABLE] = isa
    command = [sys.executable, "-m", module.__name__, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.requires("onednn")
@pytest.mark.parametrize(("features", "preset"), [(4, "none"), (5, "none"), (5, "balanced")])
@pytest.mark.parametrize("kind", ["signed", "unsigned", "tokens", "states"])
def test_the_engine_computes_what_the_simulator_does(kind: str, features: int, preset: str) -> None:
    result = told(kind, str(features), preset)
    assert (result["lstm"], result["dense"]) == (4, 1)
    assert result["rounded_jointly"] == (5 if preset == "balanced" else 0)
    assert result["engine_to_simulator"] > 90
    assert result["int8_to_fp32"] > 25


@pytest.mark.requires("onednn", "vnni")
def test_in_a_process_that_uses_vnni_already_layers_stay_fp32() -> None:
    result = told("late", "4", "none")
    assert len(result["reasons"]) == 4
    assert all("DNNL_MAX_CPU_ISA=AVX512_CORE" in reason for reason in result["reasons"])


@pytest.mark.requires("onednn")
def test_the_users_choice_of_instructions_lets_layers_run_in_int8_later() -> None:
    assert told("late", "4", "none", isa="AVX512_CORE")["reasons"] == [""] * 4


@pytest.mark.requires("onednn")
def test_the_kernel_reads_states_and_puts_out_the_last_ones() -> None:
    deviations = told(module=int8_lstm_states_run)
    assert deviations.keys() == {"zero", "given"}
    assert max(value for each in deviations.values() for value in each) < 1e-5
