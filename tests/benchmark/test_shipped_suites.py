"""The suites that ship: what they name exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from quantkit.backends.registry import MXNET
from quantkit.benchmark.builds.recipes import RECIPES
from quantkit.benchmark.suites.suite import Suite, batches_of, read_suite, shipped_suites
from quantkit.benchmark.variants import VARIANTS
from quantkit.models.card import cards
from quantkit.models.families import family_of

PATHS = list(shipped_suites().values())


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def suite(request: pytest.FixtureRequest) -> Suite:
    path: Path = request.param
    return read_suite(path)


def test_there_are_all_of_them() -> None:
    assert {path.stem for path in PATHS} == {
        "engines",
        "gluoncv-int8",
        "int8-speedup",
        "lstm-int8",
        "onnx-files",
        "rnn",
        "score",
        "scaling",
        "settings",
        "smoke",
    }


def test_networks_have_cards_or_families_and_builds_have_recipes(suite: Suite) -> None:
    names = {network.model for network in suite.networks if network.model} - {card.name for card in cards()}
    assert None not in [family_of(name) for name in names]
    assert {contestant.build for contestant in suite.contestants} <= {*RECIPES, "here"}


def test_native_builds_are_asked_for_fp32_alone(suite: Suite) -> None:
    variants = {contestant.variant for contestant in suite.contestants if contestant.build.startswith("native")}
    assert variants <= {"fp32"}


def test_of_recurrent_layers_lstm_alone_is_asked_for_in_int8(suite: Suite) -> None:
    modes = {network.rnn.mode for network in suite.networks if network.rnn}
    if any(contestant.variant == "int8" for contestant in suite.contestants):
        assert modes <= {"lstm"}


def test_other_engines_are_asked_for_what_they_can_run(suite: Suite) -> None:
    for contestant in suite.contestants:
        engine = RECIPES[contestant.build].engine if contestant.build in RECIPES else MXNET.name
        assert engine in VARIANTS[contestant.variant].forms


def test_published_figures_stand_beside_cells_that_are_measured(suite: Suite) -> None:
    measured = {network.name: batches_of(suite, network) for network in suite.networks}
    for figure in suite.published:
        assert figure.nearest or figure.batch in measured[figure.network]
        assert figure.metric in ("throughput", "latency", "speedup")
        assert figure.value > 0
    keys = [(f.network, f.batch, f.contestant, f.scenario, f.metric) for f in suite.published]
    assert len(set(keys)) == len(keys)
    assert {figure.table for figure in suite.published} == {source.table for source in suite.sources}
