"""Hostile values in operators and networks neither end nor hang the process: a sample of ``make crash-search``."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.backends.mxnet.crash_search.network_cases import damaged
from tests.backends.mxnet.crash_search.operator_cases import cases
from tests.backends.mxnet.crash_search.search import Found, search

SEED = int(os.environ.get("QUANTKIT_CRASH_SEED", "5"))
# MXNet takes 200 of them before the first case.
MEBIBYTES = 512


def _check(found: Found, count: int) -> None:
    assert not found.bad
    assert sum(found.outcomes.values()) == count
    # Were all refused, nothing would have been tried.
    assert found.outcomes["ran"] > count / 20
    assert found.mebibytes < MEBIBYTES


def test_operators(engine: None, tmp_path: Path) -> None:
    some = random.Random(SEED).sample([*cases(SEED, 1)], 1000)
    _check(search(some, tmp_path), len(some))


@pytest.mark.parametrize("name", ["digits_resnet20_v1", "digits_resnet20_v2"])
def test_networks(engine: None, tmp_path: Path, name: str) -> None:
    from quantkit.models.load import load_model

    model = load_model(name)
    some = [*damaged(model.graph, model.input_shape, SEED, 60)]
    _check(search(some, tmp_path), len(some))
