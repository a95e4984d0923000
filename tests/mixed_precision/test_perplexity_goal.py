"""Searches for networks that keep a language model's perplexity."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import quantkit
from quantkit.backends.mxnet.checkpoint import write_checkpoint
from quantkit.backends.mxnet.execute import run as run_graph
from quantkit.backends.mxnet.symbols import symbol_of
from quantkit.bundle import read_bundle
from quantkit.errors import DataError
from quantkit.host.load import Load
from quantkit.mixed_precision import busy
from quantkit.mixed_precision.search import SearchResult, search_mixed_precision
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.sequences import STEPS, TOKENS, expected_scores, sequence_network, sequences

NETWORK = sequence_network("TN")
IDS = sequences(60, tokens=True)
# The network is right about most of them, so that it has something to lose.
NEXT = expected_scores(NETWORK, IDS).argmax(axis=-1)
NEXT[::5] = np.random.default_rng(8).integers(0, TOKENS, NEXT[::5].shape)


def mean_cross_entropy(scores: np.ndarray) -> float:
    chances = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return float(-np.log(np.take_along_axis(chances, NEXT[..., None], axis=-1)).mean())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QUANTKIT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(busy, "read_load", lambda cpus: Load(0.0, 0.0, 0.25))


@pytest.fixture
def begin(int8_engine: None, short: None) -> Callable[..., SearchResult]:
    """Search with ranges so tight that the dense layer loses."""
    model = quantkit.load_model(symbol_of(NETWORK), params=NETWORK.params, input_shape=(STEPS,), layout="TN")
    fused = quantkit.fuse(model, IDS)
    table = quantkit.calibrate(fused, IDS, 32, "percentile:60")
    plan = quantkit.plan(fused, table)

    def begun(goal: quantkit.Goal, judge: object) -> SearchResult:
        return search_mixed_precision(fused, table, plan, goal, judge, IDS, "none")  # type: ignore[arg-type]

    return begun


def test_perplexity_rises_by_what_is_said_and_no_more_than_asked(
    begin: Callable[..., SearchResult], tmp_path: Path
) -> None:
    result = begin(quantkit.Goal(max_drop=0.5), (IDS, NEXT))
    fp32 = mean_cross_entropy(expected_scores(NETWORK, IDS))
    (scores, *_) = run_graph(result.network.graph, {"data": IDS.astype(np.float32)})
    drop = result.chosen.drop
    assert drop is not None and drop.measure == "perplexity"
    assert drop.reference == pytest.approx(np.exp(fp32), rel=1e-4)
    assert drop.loss == pytest.approx(100 * (np.exp(mean_cross_entropy(scores) - fp32) - 1), abs=0.01)
    assert result.met and result.layers
    assert result.int8.drop is not None and drop.loss <= 0.5 < result.int8.drop.loss
    assert result.chosen.divergence < result.int8.divergence
    settings = read_bundle(result.network.save(tmp_path / "bundle")).manifest.settings
    assert settings is not None and settings.mixed is not None
    assert (settings.mixed.measure, settings.mixed.drop) == ("perplexity", drop.loss)
    # What was measured before is read back.
    again = begin(quantkit.Goal(max_drop=0.5), (IDS, NEXT))
    assert again.measurements[1] == result.measurements[0]
    assert again.int8.drop == result.int8.drop


def test_perplexity_needs_a_label_for_every_step(begin: Callable[..., SearchResult]) -> None:
    with pytest.raises(DataError, match=r"has no labels; give a label for every step: y of shape \(samples, steps\)"):
        begin(quantkit.Goal(max_drop=0.5), IDS)
    with pytest.raises(DataError, match="scores for every step, and the data have one label for each sample"):
        begin(quantkit.Goal(max_drop=0.5), (IDS, NEXT[:, 0]))
    assert begin(quantkit.Goal(min_speedup=0.01), IDS).chosen.drop is None


@pytest.mark.usefixtures("int8_engine", "short")
def test_the_command_line(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "lm-symbol.json").open("wb") as symbol, (tmp_path / "lm-0000.params").open("wb") as params:
        write_checkpoint(NETWORK, symbol, params)
    np.savez(tmp_path / "text.npz", x=IDS, y=NEXT)
    lm = ["quantize", tmp_path / "lm", "--input-shape", STEPS, "--layout", "TN", "--out", "lm-int8"]
    data = ["--calib-data", tmp_path / "text.npz", "--eval-data", tmp_path / "text.npz"]
    told = run(*lm, *data, "--preset", "none", "--method", "percentile:60", "--max-drop", 0.5)
    assert told.exit_code == 0, told.stderr
    words = " ".join(told.stdout.split())
    assert "perplexity at most 0.5 % higher: met" in words
    assert "%, 95 % interval" in words and "on 60 samples of" in words and "points" not in words
