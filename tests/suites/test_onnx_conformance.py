"""ONNX's backend test cases as the script counts them, and what it would say of a wrong importer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quantkit.errors import ModelError
from tests.requirements import package

package("onnxruntime")
pytestmark = pytest.mark.usefixtures("engine")

# What the part of the cases that is right may not fall below, in operators of convolutional and recurrent networks.
GOAL = 0.6


def outcome_of(name: str, folder: Path) -> str:
    from onnx_cases import cases, result_of

    (result,) = [result_of(case, folder) for case in cases(("node",), name) if case.name == name]
    return str(result.outcome)


@pytest.mark.long
def test_no_case_is_wrong_or_fails(tmp_path: Path) -> None:
    """All cases but the whole networks, which `make onnx-conformance` has too."""
    from onnx_cases import KINDS, cases, result_of
    from onnx_conformance import LAYERS

    results = [result_of(case, tmp_path) for case in cases(KINDS[:-1])]
    assert len(results) > 1700
    assert [each for each in results if each.outcome in ("wrong", "failed")] == []
    assert [each for each in results if each.outcome == "refused" and not each.reason] == []
    of_layers = Counter(each.outcome for each in results if each.operator in LAYERS)
    assert of_layers["right"] >= GOAL * of_layers.total()


def test_a_network_whose_dropout_has_a_mask_is_right(tmp_path: Path) -> None:
    from onnx_cases import cases, result_of

    (case,) = cases(("real",), "squeezenet")
    assert result_of(case, tmp_path).outcome == "right"


@pytest.mark.parametrize("name", ["test_relu", "test_lstm_defaults", "test_transpose_all_permutations_4"])
def test_other_values_are_wrong(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import onnx_cases

    assert outcome_of(name, tmp_path) == "right"
    run = onnx_cases.run
    monkeypatch.setattr(onnx_cases, "run", lambda *args: [output + 1e-3 for output in run(*args)])
    assert outcome_of(name, tmp_path) == "wrong"
    monkeypatch.setattr(onnx_cases, "run", lambda *args: [output[..., :-1] for output in run(*args)])
    assert outcome_of(name, tmp_path) == "wrong"
    monkeypatch.setattr(onnx_cases, "run", lambda *args: run(*args) * 2)
    assert outcome_of(name, tmp_path) == "wrong"


def test_errors_are_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import onnx_cases

    def raising(error: Exception) -> Any:
        def function(*args: Any) -> list[np.ndarray]:
            raise error

        return function

    monkeypatch.setattr(onnx_cases, "run", raising(KeyError("x")))
    assert outcome_of("test_relu", tmp_path) == "failed"
    monkeypatch.setattr(onnx_cases, "run", raising(ModelError("x; y")))
    assert outcome_of("test_relu", tmp_path) == "refused"


def test_the_page_counts_by_operator() -> None:
    from onnx_conformance import page

    def row(operator: str, outcome: str, reason: str = "") -> dict[str, str]:
        return {"kind": "node", "name": "x", "operator": operator, "outcome": outcome, "reason": reason}

    told = "cannot be imported for 1 of its operators: Add 'y': it adds | what; and why. Replace them in the network"
    rows = [
        row("Add", "right"),
        row("Add", "refused", told),
        row("Add", "wrong"),
        row("Det", "right"),
        row("", "right"),
    ]
    document = {"command": "c", "host": {}, "revision": {"version": "0", "commit": "0" * 40, "dirty": False}}
    text = page({**document, "rows": rows})
    assert "| Add | 3 | 1 | 1 | 1 | it adds / what |" in text
    assert "| Det | 1 | 1 | 0 | 0 |  |" in text
    assert "All cases: 3 of 5 right (60.0 %), 1 refused, 1 wrong." in text
    assert "networks have: 1 of 3 right (33.3 %), 1 refused, 1 wrong." in text
