"""``quantize --never-slower``, and what is said of the speed of INT8 without it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from quantkit.bundle import latency
from quantkit.ir.graph import Graph
from quantkit.mixed_precision import never_slower
from tests.cli.conftest import SHAPE, Run

Clock = Callable[..., None]


@pytest.fixture
def options(checkpoint: Path, samples: Path) -> list[object]:
    return ["quantize", checkpoint, "--input-shape", SHAPE, "--calib-data", samples, "--calib", 5, "--preset", "none"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Lets a network take so many milliseconds where a layer is INT8, and in FP32, fused and unfused."""

    def set_to(int8: float, fused: float = 2.0, unfused: float = 2.0) -> None:
        def times(networks: Mapping[str, Graph], *_: object, **__: object) -> dict[str, np.ndarray]:
            quantized = {
                name: any(node.attrs.get("quantized") == "true" for node in graph.nodes)
                for name, graph in networks.items()
            }
            float_times = {name: unfused if name == "fp32" else fused for name in networks}
            return {name: np.full(9, int8 if quantized[name] else float_times[name]) for name in networks}

        monkeypatch.setattr(never_slower, "latencies_in_turns", times)
        monkeypatch.setattr(latency, "latencies_in_turns", times)

    return set_to


def test_what_is_kept_was_proven_and_is_stored(
    run: Run, options: list[object], int8_engine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(never_slower, "_LEAST_SECONDS", 0.02)
    monkeypatch.setattr(never_slower, "_MOST_SECONDS", 0.02)
    monkeypatch.setattr(never_slower, "_PROOF_SECONDS", 0.2)
    done = run(*options, "--never-slower", "--speed-batch", 2, "--search-minutes", 1, "--out", "b", "--json")
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    proof = result["never_slower"]
    # Which it is depends on the machine; INT8 without proof is never kept.
    assert bool(result["int8"]) == proof["faster"] == (proof["faster"] and proof["ratio"]["low"] > 1)
    assert set(result["latency_ms"]) == {"fp32", "fp32_fused", *(["int8"] if proof["faster"] else [])}
    assert (proof["batch"], proof["complete"]) == (2, True)
    manifest = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert (manifest["settings"]["speed"], manifest["version"], proof["bindings"]) == (proof, 9, 6)
    assert json.loads(run("explain", "b", "--json").stdout)["never_slower"] == proof
    assert "batch 2" in run("explain", "b").stdout
    assert run("verify", "b").exit_code == 0


def test_int8_that_is_faster_is_kept(run: Run, options: list[object], int8_engine: None, clock: Clock) -> None:
    clock(1.0)
    done = run(*options, "--never-slower", "--out", "b")
    assert done.exit_code == 0, done.stderr
    assert "INT8 is 2.00x [2.00, 2.00] as fast as FP32 fused" in done.stdout
    assert "2.00x [2.00, 2.00] as fast" in run("explain", "b").stdout


def test_int8_that_is_slower_is_not_kept_and_that_is_no_error(
    run: Run, options: list[object], int8_engine: None, clock: Clock
) -> None:
    clock(4.0)
    done = run(*options, "--never-slower", "--out", "b")
    assert done.exit_code == 0, done.stderr
    told = "every layer is in FP32: INT8 was 0.50x [0.50, 0.50] as fast as FP32 fused, not faster"
    assert told in " ".join(done.stdout.split())
    assert "INT8 4.00 ms" not in done.stdout
    explained = " ".join(run("explain", "b").stdout.split())
    assert told in explained
    assert "returned to FP32 with 2 others (all layers): faster there by 2 ms [2, 2] of 4 ms" in explained
    assert run("verify", "b").exit_code == 0


def test_a_configuration_asks_for_it_too(run: Run, options: list[object], int8_engine: None, clock: Clock) -> None:
    clock(1.0)
    Path("c.toml").write_text("never_slower = true\nspeed_batch = 2\nsearch_minutes = 0.5\n")
    result = json.loads(run(*options, "--config", "c.toml", "--out", "b", "--json").stdout)
    assert result["never_slower"]["batch"] == 2
    refused = run(*options, "--config", "c.toml", "--out", "c", "--no-latency")
    assert (refused.exit_code, "leave --no-latency out" in refused.stderr) == (2, True)


@pytest.mark.parametrize(("speedup", "exit_code", "said"), [(0.5, 0, "met"), (3, 4, "NOT MET")])
def test_a_goal_may_be_missed_in_fp32(
    run: Run, options: list[object], samples: Path, int8_engine: None, clock: Clock, speedup: float, exit_code: int,
    said: str,
) -> None:  # fmt: skip
    clock(4.0)
    goal = ["--max-drop", 1, "--min-speedup", speedup, "--eval-data", samples]
    done = run(*options, "--never-slower", *goal, "--out", "b")
    assert done.exit_code == exit_code, done.stderr
    assert f"goal {said}" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ((4.0,), "INT8 IS SLOWER: 0.50x [0.50, 0.50] as fast as FP32 fused --never-slower returns"),
        (
            (2.0,),
            "INT8 cannot be told from FP32 fused: 1.00x [1.00, 1.00] as fast as FP32 fused --never-slower returns",
        ),
        ((1.0,), None),
        # The user's own network is the unfused one.
        ((1.5, 3.0, 0.75), "INT8 IS SLOWER: 0.50x [0.50, 0.50] as fast as FP32 unfused --never-slower returns"),
        ((2.0, 3.0, 2.0), "INT8 cannot be told from FP32 unfused: 1.00x [1.00, 1.00] as fast as FP32 unfused"),
        ((1.0, 3.0, 2.0), None),
    ],
)
def test_without_it_int8_that_is_not_faster_is_told(
    run: Run, options: list[object], int8_engine: None, clock: Clock, times: tuple[float, ...], said: str | None
) -> None:
    clock(*times)
    printed = " ".join(run(*options, "--out", "b").stdout.split())
    assert ("--never-slower" in printed) == (said is not None)
    assert said is None or said in printed


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--never-slower", "--no-latency"], "leave --no-latency out"),
        (["--never-slower", "--min-speedup", 2], "or a max_drop as well"),
        (["--speed-batch", 4], "nothing is timed without never_slower"),
        (["--never-slower", "--eval-data", "digits:test"], "--eval-data is for a goal"),
        (["--search-minutes", 3], "--never-slower"),
    ],
    ids=str,
)
def test_requests_that_make_no_sense(
    run: Run, options: list[object], int8_engine: None, more: list[object], words: str, tmp_path: Path
) -> None:
    done = run(*options, "--out", "b", *more)
    assert done.exit_code == 2, done.stdout
    assert words in done.stderr.splitlines()[-1]
    assert not (tmp_path / "b").exists()
