"""Measurements of a journal that somebody has edited: an error that names the file, whatever it says."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from quantkit.errors import QuantkitError
from quantkit.evaluation.drop import measure_drop
from quantkit.mixed_precision.journal import Journal
from quantkit.mixed_precision.measurements import Budget, Measurements

MILLISECONDS = {"fp32": 4.0, "fp32_fused": 2.0, "int8": 1.0}
CHECK = {"divergence": 0.1, "outcomes": [1, 2, 3], "milliseconds": MILLISECONDS, "extra": 0.0, "noise": 0.01}
TRIAL = {"divergence": 0.1, "milliseconds": 0.5, "noise": 0.01}


def measured(path: Path, kind: str, value: Any, layers: tuple[str, ...] = ()) -> Any:
    path.write_text(json.dumps({"what": [kind, *layers], "value": value}) + "\n")
    graph = SimpleNamespace(by_name=dict.fromkeys(("a", "b")))
    network: Any = SimpleNamespace(network=SimpleNamespace(graph=graph))
    fp32 = np.array([1, 2, 4])
    images: Any = SimpleNamespace(outcomes=fp32, drop=lambda outcomes: measure_drop(fp32, outcomes, None))
    nothing: Any = None
    found = Measurements(nothing, network, nothing, images, Journal(path), Budget(0))
    return found.trial(frozenset(layers)) if kind == "trial" else found.checks[frozenset(layers), False]


def test_what_is_sound_is_taken(tmp_path: Path) -> None:
    assert measured(tmp_path / "j", "trial", TRIAL).milliseconds == 0.5
    found = measured(tmp_path / "j", "check", CHECK)
    assert (found.speedup, found.drop.loss) == (4.0, pytest.approx(100 / 3))


WRONG = ["x", None, [], {}, [1.5], "\ud800"]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *(("trial", {name: wrong}) for name in TRIAL for wrong in (*WRONG, ...)),
        *(("check", {name: wrong}) for name in CHECK for wrong in (*WRONG, ...)),
        ("check", {"outcomes": [1, 2]}),
        ("check", {"outcomes": [1, 2, 3.5]}),
        ("check", {"outcomes": [1, 2, [3]]}),
        *(("check", {"milliseconds": {**MILLISECONDS, "int8": wrong}}) for wrong in (*WRONG, 0, -1.0)),
        ("check", {"milliseconds": {**MILLISECONDS, "mixed": 1.0}}),
        ("check", {"milliseconds": {"fp32": 1.0}}),
    ],
)
def test_what_is_not_is_an_error_that_names_the_journal(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    value = {**(TRIAL if kind == "trial" else CHECK), **changes}
    value = {name: each for name, each in value.items() if each is not ...}
    with pytest.raises(QuantkitError, match=rf"the entry '{kind}' of the journal {tmp_path}/j is damaged"):
        measured(tmp_path / "j", kind, value)


@pytest.mark.parametrize("layers", [("unknown",), ("a", "a"), ("b", "a"), ("",)])
def test_layers_that_no_search_writes_down(layers: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(QuantkitError, match="is damaged; delete the journal"):
        measured(tmp_path / "j", "check", CHECK, layers)
